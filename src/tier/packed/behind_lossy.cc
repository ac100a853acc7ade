#include "tier/packed/behind_lossy.h"

#include <span>
#include <string>
#include <utility>

#include "base/hash.h"

namespace quire {
namespace {

class MarkingOnly final : public SlabPacking {
 public:
    explicit MarkingOnly(std::shared_ptr<const SlabPacking> above) : above_(std::move(above)) {}
    PackingTag tag() const override { return above_->tag(); }
    std::string name() const override { return "nothing, marked as behind " + above_->name(); }
    bool lossless() const override { return false; }
    bool stands_on_exact(const SlabHeader& header) const override {
        return above_->stands_on_exact(header);
    }
    bool pack(std::span<const std::byte>, std::vector<std::byte>*) const override { return false; }
    Status unpack(std::span<const std::byte> packed, std::span<std::byte> slab) const override {
        return above_->unpack(packed, slab);
    }

 private:
    std::shared_ptr<const SlabPacking> above_;
};

Hash128 both(const PackingTag& own, const PackingTag& above) {
    const std::string text = "packed behind " + own.transform.to_hex() + " " +
                             std::to_string(static_cast<uint32_t>(above.id)) + " " +
                             std::to_string(above.version) + " " + above.transform.to_hex();
    const Digest128 digest = sha256_128(std::as_bytes(std::span(text)));
    return {digest.hi, digest.lo};
}

class BehindLossy final : public SlabPacking {
 public:
    BehindLossy(std::shared_ptr<const SlabPacking> packing,
                std::shared_ptr<const SlabPacking> above)
        : packing_(std::move(packing)), above_(std::move(above)), tag_(packing_->tag()) {
        tag_.transform = both(tag_, above_->tag());
    }
    PackingTag tag() const override { return tag_; }
    bool reads(const PackingTag& other) const override {
        return other == tag_ || packing_->reads(other);
    }
    std::string name() const override { return packing_->name(); }
    bool lossless() const override { return packing_->lossless(); }
    bool stands_on_exact(const SlabHeader& header) const override {
        return packing_->stands_on_exact(header) && above_->stands_on_exact(header);
    }
    bool pack(std::span<const std::byte> slab, std::vector<std::byte>* out) const override {
        return packing_->pack(slab, out);
    }
    Status unpack(std::span<const std::byte> packed, std::span<std::byte> slab) const override {
        return packing_->unpack(packed, slab);
    }

 private:
    std::shared_ptr<const SlabPacking> packing_, above_;
    PackingTag tag_;
};

}  // namespace

std::shared_ptr<const SlabPacking> pack_behind(std::shared_ptr<const SlabPacking> packing,
                                               std::shared_ptr<const SlabPacking> above) {
    if (!above || above->lossless()) return packing;
    if (!packing) return std::make_shared<MarkingOnly>(std::move(above));
    if (packing->tag() == above->tag()) return packing;
    return std::make_shared<BehindLossy>(std::move(packing), std::move(above));
}

}  // namespace quire
