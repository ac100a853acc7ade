// Codecs: how the numbers of a page become bytes and come back.
//
// A *page* is one block of one layer and one KV head: K and V of `block_tokens` tokens, `head_dim`
// numbers each. A codec is plain functions over a page in the caller's buffers: no state, no
// allocation, no framework, any thread; two calls may run at once unless they write to the same
// group of 16 tokens of one page. Bytes are the same whichever instruction set wrote them.
//
// A family of codecs is a folder and a row of codec_table() (codec_table.h); a CodecSpec names one
// member of a family, such as k6v4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/isa.h"
#include "core/kv_layout.h"

namespace quire::codec {

inline constexpr uint32_t kGroupTokens = 16;
inline constexpr uint32_t kMaxHeadDim = 1024;

// What must be there before a page can be encoded: single tokens, or the whole block.
enum class Unit : uint8_t { token, tile };

struct Geometry {
    uint32_t head_dim = 0;
    uint32_t kv_heads = 1;
    uint32_t block_tokens = kGroupTokens;
    Element element = Element::f16;  // of uncoded pages

    friend bool operator==(const Geometry&, const Geometry&) = default;
};

// A value that names a codec; made by find_codec() and codec_of_id() only. Numbers of families are
// in codec_table.cc and are never used again.
struct CodecSpec {
    uint8_t family = 0;
    uint8_t k_bits = 0;  // where the family has widths; at most 15
    uint8_t v_bits = 0;
    uint16_t option = 0;  // the family's own
    uint16_t version = 0;

    // What slab headers and block keys hold, beside the version.
    constexpr uint32_t id() const {
        return uint32_t{family} | uint32_t{k_bits} << 8 | uint32_t{v_bits} << 12 |
               uint32_t{option} << 16;
    }
    friend bool operator==(const CodecSpec&, const CodecSpec&) = default;
};

// What families that turn rows before they code them are told of one side; others ignore it.
struct RowMap {
    // [head_dim][head_dim], row d: what number d, less its mean, adds to the turned row. Null: the
    // row stays.
    const float* forward = nullptr;
    const float* back = nullptr;  // the inverse, likewise; null with `forward` only
    // [head_dim] every component once, those that get the most bits first. Null: as they come.
    const uint16_t* order = nullptr;
};

// What a codec is told about one KV head of one layer, from a sidecar file. Borrowed. Decoding
// needs the same values as encoding; their hash is in the page's description (description.h).
struct HeadSidecar {
    const float* k_mean = nullptr;  // [head_dim], subtracted before coding; null: zero
    const float* v_mean = nullptr;
    float k_scale = 1.0f;  // of codecs with one given scale per head; positive and finite
    float v_scale = 1.0f;
    RowMap k_map;
    RowMap v_map;
};

// Token t of the page (0 <= t < block_tokens) has its row at k + t * k_stride, counted in floats.
// Only tokens [first, last) are touched. A null k or v leaves that side alone.
struct EncodePage {
    CodecSpec spec;
    Geometry geometry;
    HeadSidecar sidecar;
    const float* k = nullptr;
    const float* v = nullptr;
    size_t k_stride = 0;
    size_t v_stride = 0;
    uint32_t first = 0;
    uint32_t last = 0;
    std::byte* page = nullptr;  // page_bytes, aligned to kPageAlign
};

struct DecodePage {
    CodecSpec spec;
    Geometry geometry;
    HeadSidecar sidecar;
    const std::byte* page = nullptr;
    // false: numbers as attention sees them, in the codec's space: rotated, mean removed.
    // true: in the space of what was encoded.
    bool original_space = true;
    float* k = nullptr;
    float* v = nullptr;
    size_t k_stride = 0;
    size_t v_stride = 0;
    uint32_t first = 0;
    uint32_t last = 0;
};

inline constexpr size_t kPageAlign = 32;

// One instruction set's functions. All rows of a codec give the same bits.
struct PageCodecOps {
    Isa isa;
    const char* name;
    bool (*cpu_has_it)();
    // Unit::token: writes tokens [first, last) and leaves every other token as it was; a page that
    // no token was written to is all zero bytes. Unit::tile: REQUIRES first == 0 and last ==
    // block_tokens. Returns how many rows held a NaN or an infinity; what became of them is the
    // codec's to define, and is never poison for other rows.
    // REQUIRES: unsupported(spec, geometry) == nullptr, first <= last <= block_tokens.
    uint32_t (*encode)(const EncodePage& job);
    // Any bytes decode to something, without reading outside the page.
    void (*decode)(const DecodePage& job);
};

struct Capabilities {
    bool random_access = false;      // one token is read without its neighbours
    bool fused = false;              // laid out for attention to read the codes themselves
    bool lossless = false;           // for numbers that are exact in `element`
    bool needs_calibration = false;  // cannot run without a sidecar
};

// One family.
struct CodecRow {
    uint8_t family;
    uint16_t version;     // of its bytes; any other is refused
    const char* folder;   // "hot": of src/codec, and of its golden vectors
    const char* pattern;  // "k{2..8}v{2..8}"
    const char* summary;
    Unit unit;
    Capabilities can;
    // Every member, for lists and tests.
    std::span<const CodecSpec> (*specs)();
    // The member of that name or one of its other names; nothing when it is not one of ours.
    std::optional<CodecSpec> (*parse)(std::string_view name);
    std::string (*name)(const CodecSpec& spec);
    // Why the shape does not fit; nullptr: it does.
    const char* (*unsupported)(const CodecSpec& spec, const Geometry& geometry);
    // A function of spec and geometry only; a multiple of kPageAlign. Room for any page.
    size_t (*page_bytes)(const CodecSpec& spec, const Geometry& geometry);
    std::span<const PageCodecOps> (*ops)();  // slowest first; the first is the oracle
    // Codecs whose pages differ in size (Unit::tile only) say here how many of a page's bytes are
    // to be kept, at most page_bytes(); the rest is zero. Any bytes may be asked about. Null: all.
    size_t (*stored_bytes)(const CodecSpec& spec, const Geometry& geometry,
                           const std::byte* page) = nullptr;
};

}  // namespace quire::codec
