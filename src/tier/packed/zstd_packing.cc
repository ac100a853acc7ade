#include "tier/packed/zstd_packing.h"

#include <zstd.h>

#include "format/slab.h"

namespace quire {
namespace {

constexpr uint16_t kZstdVersion = 1;
// Keys and values are noise but for their exponents: higher levels find no more.
constexpr int kLevel = 1;

class ZstdPacking final : public SlabPacking {
 public:
    PackingTag tag() const override { return {PackingId::zstd, kZstdVersion, {}}; }
    std::string name() const override { return "zstd"; }
    bool lossless() const override { return true; }

    bool pack(std::span<const std::byte> slab, std::vector<std::byte>* out) const override {
        const size_t payload = slab_header(slab).payload_bytes;
        const size_t at = out->size();
        out->resize(at + ZSTD_compressBound(payload));
        const size_t bytes = ZSTD_compress(out->data() + at, out->size() - at,
                                           slab.data() + kSlabHeaderBytes, payload, kLevel);
        if (ZSTD_isError(bytes)) return false;
        out->resize(at + bytes);
        return true;
    }

    Status unpack(std::span<const std::byte> packed, std::span<std::byte> slab) const override {
        const size_t payload = slab_header(slab).payload_bytes;
        const size_t bytes =
            ZSTD_decompress(slab.data() + kSlabHeaderBytes, payload, packed.data(), packed.size());
        if (!ZSTD_isError(bytes) && bytes == payload) return {};
        return make_error(Code::corrupt,
                          std::string("a zstd frame that cannot be read: ") +
                              (ZSTD_isError(bytes) ? ZSTD_getErrorName(bytes) : "too short"));
    }
};

}  // namespace

std::shared_ptr<const SlabPacking> make_zstd_packing() {
    return std::make_shared<ZstdPacking>();
}

}  // namespace quire
