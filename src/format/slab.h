// The slab: a block's bytes as they sit in G1, G2, G3 and on the wire. See also core/kv_layout.h.
//
// A slab is this 4 KiB header, then the payload (pages in layer order), then zero padding to 4 KiB.
// The header says what the payload is, so that a load can refuse anything that is not exactly the
// block asked for: key, parent, token ids, geometry, codec and one CRC32C per layer. All fields
// little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "codec/description.h"
#include "core/chain.h"
#include "core/kv_layout.h"

namespace quire {

inline constexpr uint32_t kSlabMagic = 0x42535551;  // "QUSB"
inline constexpr uint16_t kSlabVersion = 1;
inline constexpr size_t kTenantBytesMax = 64;

// Of a slab that a tier stores packed: how, and what it was before. Its payload is then one layer
// of any size; key, codec, page and all else are those of the block. Without layers before it is a
// mark: the payload is as it was, but its numbers come from some that this packing changed. Zero:
// not packed.
struct PackedPayload {
    uint32_t packing = 0;  // tier/packed/slab_packing.h
    uint16_t version = 0;
    uint16_t layer_count = 0;  // before
    uint32_t layer_bytes = 0;
    uint32_t payload_crc = 0;  // CRC32C of all layers before, where nothing is lost; else zero
    Hash128 transform;         // names all else that unpacking depends on

    friend bool operator==(const PackedPayload&, const PackedPayload&) = default;
};

struct SlabHeader {
    uint32_t magic = kSlabMagic;
    uint16_t version = kSlabVersion;
    uint16_t group = 0;
    uint32_t header_crc = 0;  // CRC32C of the 4096 bytes with this field zero
    uint32_t payload_bytes = 0;
    BlockKey key;
    BlockKey parent_key;  // key of the parent block in the same group; zero for the first block
    PrefixHash prefix;
    PrefixHash parent_prefix;  // the chain root for the first block
    ModelId model;
    Hash128 layout_digest;
    uint32_t codec = kCodecRaw16;
    uint16_t codec_version = 1;
    uint16_t layer_count = 0;
    uint32_t layer_bytes = 0;
    uint32_t token_count = 0;
    uint32_t first_position = 0;  // position of the block's first token
    uint8_t element = 0;
    uint8_t kv_kind = 0;
    uint16_t tenant_bytes = 0;
    std::array<char, kTenantBytesMax> tenant{};  // name (cut to fit), for inspection only
    std::array<TokenId, kMaxBlockTokens> tokens{};
    std::array<uint32_t, kMaxGroupLayers> layer_crc{};
    // Of pages that are not simply 16 bit: page_description(). Otherwise zero.
    codec::PageDescription page;
    PackedPayload packed;
    std::array<std::byte, 1776> reserved{};
};
static_assert(sizeof(SlabHeader) == kSlabHeaderBytes);

// What a reader expects of a slab; anything else is Code::corrupt (damaged bytes),
// Code::unsupported (packed, or marked) or Code::miss (a sound slab of something else).
struct SlabExpectation {
    BlockKey key;
    PrefixHash prefix;
    PrefixHash parent_prefix;
    ModelId model;
    Hash128 layout_digest;
    uint32_t codec = kCodecRaw16;
    uint16_t codec_version = 1;
    uint16_t group = 0;
    codec::PageDescription page;
    TokenSpan tokens;
};

// What a group's pages say about themselves; zero in a layout without codes.
codec::PageDescription page_description(const KvLayout& layout, size_t group);

// All functions below: pure, any thread, and slab.data() must be aligned for SlabHeader (buffers of
// slabs are 4 KiB aligned anyway).

// Bytes of a slab with this much payload: header, payload, padding.
constexpr size_t slab_bytes_for(size_t payload_bytes) {
    return (kSlabHeaderBytes + payload_bytes + kSlabAlign - 1) / kSlabAlign * kSlabAlign;
}

// Fills layer_crc and header_crc of the slab whose other header fields and payload are complete,
// and zeroes the padding. Reads the payload once. REQUIRES: sizes in the header are consistent and
// slab.size() == slab_bytes_for(payload_bytes).
void seal_slab(std::span<std::byte> slab);

// Checks magic, header CRC, version and sizes. `slab` is the header alone (kSlabHeaderBytes) or a
// whole slab, whose size must then be the one that the header says. corrupt: damaged or cut; miss:
// sound, but of another format version. The message names the first thing that is wrong with its
// offset and the expected and actual digest. Does not need to know the model.
Status verify_slab_header(std::span<const std::byte> slab);

// verify_slab_header of a whole slab, then every layer's CRC and the padding. Reads all bytes once.
Status verify_slab(std::span<const std::byte> slab);

// The CRCs of layers [from, to) and, when the last one is among them, the padding; touches no other
// layer. REQUIRES: verify_slab_header(slab) was ok, slab is whole, to <= layer_count.
Status verify_slab_layers(std::span<const std::byte> slab, uint32_t from, uint32_t to);

// verify_slab_header and a comparison with what was asked for: miss when another block's. Does not
// touch the payload.
Status match_slab(std::span<const std::byte> slab, const SlabExpectation& expected);

inline const SlabHeader& slab_header(std::span<const std::byte> slab) {
    return *reinterpret_cast<const SlabHeader*>(slab.data());
}
inline SlabHeader& slab_header(std::span<std::byte> slab) {
    return *reinterpret_cast<SlabHeader*>(slab.data());
}

}  // namespace quire
