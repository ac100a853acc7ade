#include "format/slab.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"

namespace quire {
namespace {

constexpr size_t kCrcOffset = offsetof(SlabHeader, header_crc);

uint32_t header_digest(std::span<const std::byte> slab) {
    static constexpr std::byte kZeroField[sizeof(uint32_t)] = {};
    const uint32_t before = crc32c(slab.first(kCrcOffset));
    const uint32_t field = crc32c(kZeroField, before);
    const size_t after = kCrcOffset + sizeof(uint32_t);
    return crc32c(slab.subspan(after, kSlabHeaderBytes - after), field);
}

std::span<const std::byte> layer_of(std::span<const std::byte> slab, const SlabHeader& header,
                                    size_t layer) {
    return slab.subspan(kSlabHeaderBytes + layer * header.layer_bytes, header.layer_bytes);
}

bool all_zero(std::span<const std::byte> bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

Error damaged(const char* what, size_t offset, uint64_t expected, uint64_t actual) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "slab: %s at offset %zu: expected 0x%08" PRIx64 ", found 0x%08" PRIx64, what,
                  offset, expected, actual);
    return make_error(Code::corrupt, text, static_cast<int64_t>(offset));
}

// Header fields that later code indexes or multiplies with.
Status check_sizes(const SlabHeader& h) {
    if (h.layer_count == 0 || h.layer_count > kMaxGroupLayers)
        return damaged("layer_count", offsetof(SlabHeader, layer_count), kMaxGroupLayers,
                       h.layer_count);
    const uint64_t payload = uint64_t{h.layer_count} * h.layer_bytes;
    if (payload == 0 || payload != h.payload_bytes)
        return damaged("payload_bytes", offsetof(SlabHeader, payload_bytes), payload,
                       h.payload_bytes);
    if (h.token_count == 0 || h.token_count > kMaxBlockTokens)
        return damaged("token_count", offsetof(SlabHeader, token_count), kMaxBlockTokens,
                       h.token_count);
    if (h.tenant_bytes > kTenantBytesMax)
        return damaged("tenant_bytes", offsetof(SlabHeader, tenant_bytes), kTenantBytesMax,
                       h.tenant_bytes);
    return {};
}

void check_alignment(std::span<const std::byte> slab) {
    QUIRE_CHECK(reinterpret_cast<uintptr_t>(slab.data()) % alignof(SlabHeader) == 0,
                "slab buffer is not aligned for its header");
}

}  // namespace

void seal_slab(std::span<std::byte> slab) {
    check_alignment(slab);
    QUIRE_CHECK(slab.size() >= kSlabHeaderBytes, "slab smaller than its header");
    SlabHeader& header = slab_header(slab);
    QUIRE_CHECK(check_sizes(header).ok(), "slab header sizes do not fit together");
    QUIRE_CHECK(slab.size() == slab_bytes_for(header.payload_bytes),
                "slab size differs from header's");
    const auto padding = slab.subspan(kSlabHeaderBytes + header.payload_bytes);
    std::fill(padding.begin(), padding.end(), std::byte{0});
    for (size_t layer = 0; layer < header.layer_count; ++layer)
        header.layer_crc[layer] = crc32c(layer_of(slab, header, layer));
    header.header_crc = header_digest(slab);
}

Status verify_slab_header(std::span<const std::byte> slab) {
    if (slab.size() < kSlabHeaderBytes)
        return damaged("cut short: bytes", 0, kSlabHeaderBytes, slab.size());
    check_alignment(slab);
    const SlabHeader& header = slab_header(slab);
    if (header.magic != kSlabMagic) return damaged("magic", 0, kSlabMagic, header.magic);
    const uint32_t digest = header_digest(slab);
    if (digest != header.header_crc)
        return damaged("header CRC32C", kCrcOffset, header.header_crc, digest);
    if (header.version != kSlabVersion)
        return make_error(Code::miss, "slab: sound, but of another format version: " +
                                          std::to_string(header.version) + ", this build reads " +
                                          std::to_string(kSlabVersion));
    QUIRE_TRY(check_sizes(header));
    const size_t bytes = slab_bytes_for(header.payload_bytes);
    if (slab.size() != kSlabHeaderBytes && slab.size() != bytes)
        return damaged("size in bytes", 0, bytes, slab.size());
    return {};
}

Status verify_slab(std::span<const std::byte> slab) {
    QUIRE_TRY(verify_slab_header(slab));
    const SlabHeader& header = slab_header(slab);
    const size_t bytes = slab_bytes_for(header.payload_bytes);
    if (slab.size() != bytes) return damaged("size in bytes", 0, bytes, slab.size());
    return verify_slab_layers(slab, 0, header.layer_count);
}

Status verify_slab_layers(std::span<const std::byte> slab, uint32_t from, uint32_t to) {
    const SlabHeader& header = slab_header(slab);
    for (size_t layer = from; layer < to; ++layer) {
        const uint32_t digest = crc32c(layer_of(slab, header, layer));
        if (digest == header.layer_crc[layer]) continue;
        const std::string what = "CRC32C of layer " + std::to_string(layer);
        return damaged(what.c_str(), kSlabHeaderBytes + layer * header.layer_bytes,
                       header.layer_crc[layer], digest);
    }
    if (to < header.layer_count) return {};
    const size_t end = kSlabHeaderBytes + header.payload_bytes;
    if (!all_zero(slab.subspan(end))) return damaged("padding not zero", end, 0, 1);
    return {};
}

}  // namespace quire
