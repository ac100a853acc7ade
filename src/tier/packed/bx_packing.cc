#include "tier/packed/bx_packing.h"

#include <algorithm>
#include <cstring>

#include "base/isa.h"
#include "codec/bx/bx.h"
#include "format/slab.h"
#include "tier/packed/packed_slab.h"

namespace quire {
namespace {

constexpr uint16_t kBxVersion = 1;
constexpr size_t kSideMultiple = 256;

// Pages one after the other, each what bx keeps of it; their length is in their first bytes.
class BxPacking final : public SlabPacking {
 public:
    explicit BxPacking(const KvLayout& layout) : layout_(layout) {}

    PackingTag tag() const override { return {PackingId::bx, kBxVersion, {}}; }
    std::string name() const override { return "bx"; }
    bool lossless() const override { return true; }

    bool pack(std::span<const std::byte> slab, std::vector<std::byte>* out) const override {
        const SlabHeader& header = slab_header(slab);
        if (!plain_pages(header)) return false;
        const size_t page = layout_.page_bytes(header.group);
        const size_t bound = codec::bx::page_bound(page / 4);
        SlabBuffer memory((bound + kSlabAlign - 1) / kSlabAlign * kSlabAlign);
        if (!memory) return false;
        for (size_t at = 0; at < header.payload_bytes; at += page) {
            const auto* words =
                reinterpret_cast<const uint16_t*>(slab.data() + kSlabHeaderBytes + at);
            version_.pack(words, page / 4, memory.bytes().data());
            const size_t kept = codec::bx::stored_bytes(memory.bytes().data(), bound);
            out->insert(out->end(), memory.bytes().begin(),
                        memory.bytes().begin() + static_cast<ptrdiff_t>(kept));
        }
        return true;
    }

    Status unpack(std::span<const std::byte> packed, std::span<std::byte> slab) const override {
        const SlabHeader& header = slab_header(std::span<const std::byte>(slab));
        const Error damaged = make_error(Code::corrupt, "bx pages that do not fill their slab");
        if (!plain_pages(header)) return damaged;
        const size_t page = layout_.page_bytes(header.group);
        const size_t bound = codec::bx::page_bound(page / 4);
        SlabBuffer memory((bound + kSlabAlign - 1) / kSlabAlign * kSlabAlign);
        if (!memory) return make_error(Code::full, "no memory for a page");
        for (size_t at = 0; at < header.payload_bytes; at += page) {
            uint32_t kept = 0;
            if (packed.size() < codec::bx::kPageHeaderBytes) return damaged;
            std::memcpy(&kept, packed.data(), sizeof kept);
            if (kept < codec::bx::kPageHeaderBytes || kept > std::min(bound, packed.size()))
                return damaged;
            std::ranges::copy(packed.first(kept), memory.bytes().begin());
            std::ranges::fill(memory.bytes().subspan(kept, bound - kept), std::byte{0});
            std::byte* words = slab.data() + kSlabHeaderBytes + at;
            version_.unpack(memory.bytes().data(), page / 4, reinterpret_cast<uint16_t*>(words));
            packed = packed.subspan(kept);
        }
        return packed.empty() ? Status() : damaged;
    }

 private:
    bool plain_pages(const SlabHeader& header) const {
        return header.group < layout_.groups.size() && header.codec == kCodecRaw16 &&
               header.payload_bytes == layout_.payload_bytes(header.group);
    }

    const KvLayout layout_;
    const codec::bx::Version& version_ = codec::bx::best_version();
};

}  // namespace

Result<std::shared_ptr<const SlabPacking>> make_bx_packing(const KvLayout& layout) {
    if (layout.element != Element::bf16)
        return make_error(Code::unsupported,
                          "bx packs pages of bf16, and these are f16; --kv-dtype bf16 makes them "
                          "such, zstd loses nothing either, ec:BITS packs smaller");
    for (size_t g = 0; g < layout.groups.size(); ++g) {
        const size_t side = layout.page_bytes(g) / 4;
        if (layout.groups[g].pages.codec != kCodecRaw16) continue;
        if (side % kSideMultiple != 0 || side > codec::bx::kMaxSideNumbers)
            return make_error(Code::unsupported, "bx does not pack pages of " +
                                                     std::to_string(side) + " numbers a side");
    }
    return std::shared_ptr<const SlabPacking>(std::make_shared<BxPacking>(layout));
}

}  // namespace quire
