// Block formats: ggml/src/ggml-common.h and the dequantize_row_* functions of ggml-quants.c.
#include "engine/model/packed/pack.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include <ggml.h>

namespace quire::packed {
namespace {

// One output's weights of one block, whatever ggml's format.
struct Block {
    uint8_t codes[kInputs] = {};
    uint16_t d = 0;  // float16 bits; of the super-block where there is one
    uint16_t m = 0;
    uint8_t scale[2] = {};  // kind k: s, t; kind k6: s of each half
};

uint16_t half_at(const uint8_t* p) {
    uint16_t bits;
    std::memcpy(&bits, p, sizeof(bits));
    return bits;
}

// Low nibbles are the first half of the inputs, high ones the second.
void nibbles(const uint8_t* from, Block* b) {
    for (int i = 0; i < 16; ++i) {
        b->codes[i] = from[i] & 15;
        b->codes[16 + i] = from[i] >> 4;
    }
}

void top_bits(const uint8_t* from, Block* b) {
    uint32_t bits;
    std::memcpy(&bits, from, sizeof(bits));
    for (int i = 0; i < kInputs; ++i)
        b->codes[i] = static_cast<uint8_t>(b->codes[i] | (bits >> i & 1) << 4);
}

Block read_q4_0(const uint8_t* row, int64_t block) {
    const uint8_t* p = row + block * 18;
    Block b{.d = half_at(p)};
    nibbles(p + 2, &b);
    return b;
}

Block read_q4_1(const uint8_t* row, int64_t block) {
    const uint8_t* p = row + block * 20;
    Block b{.d = half_at(p), .m = half_at(p + 2)};
    nibbles(p + 4, &b);
    return b;
}

Block read_q5_0(const uint8_t* row, int64_t block) {
    const uint8_t* p = row + block * 22;
    Block b{.d = half_at(p)};
    nibbles(p + 6, &b);
    top_bits(p + 2, &b);
    return b;
}

Block read_q5_1(const uint8_t* row, int64_t block) {
    const uint8_t* p = row + block * 24;
    Block b{.d = half_at(p), .m = half_at(p + 2)};
    nibbles(p + 8, &b);
    top_bits(p + 4, &b);
    return b;
}

Block read_q8_0(const uint8_t* row, int64_t block) {
    const uint8_t* p = row + block * 34;
    Block b{.d = half_at(p)};
    for (int i = 0; i < kInputs; ++i) b.codes[i] = static_cast<uint8_t>(p[2 + i] ^ 0x80);
    return b;
}

// Eight 6-bit scales and eight 6-bit minima in 12 bytes.
void k_scales(const uint8_t* from, int64_t j, Block* b) {
    const auto low6 = [](uint8_t v) { return static_cast<uint8_t>(v & 63); };
    if (j < 4) {
        b->scale[0] = low6(from[j]);
        b->scale[1] = low6(from[j + 4]);
        return;
    }
    b->scale[0] = static_cast<uint8_t>((from[j + 4] & 15) | (from[j - 4] >> 6 << 4));
    b->scale[1] = static_cast<uint8_t>((from[j + 4] >> 4) | (from[j] >> 6 << 4));
}

void k_nibbles(const uint8_t* from, int64_t j, Block* b) {
    const uint8_t* p = from + j / 2 * 32;
    for (int i = 0; i < kInputs; ++i) b->codes[i] = static_cast<uint8_t>(p[i] >> (j % 2 * 4) & 15);
}

Block read_q4_k(const uint8_t* row, int64_t block) {
    const uint8_t* p = row + block / 8 * 144;
    Block b{.d = half_at(p), .m = half_at(p + 2)};
    k_scales(p + 4, block % 8, &b);
    k_nibbles(p + 16, block % 8, &b);
    return b;
}

Block read_q5_k(const uint8_t* row, int64_t block) {
    const uint8_t* p = row + block / 8 * 176;
    Block b{.d = half_at(p), .m = half_at(p + 2)};
    k_scales(p + 4, block % 8, &b);
    k_nibbles(p + 48, block % 8, &b);
    for (int i = 0; i < kInputs; ++i)
        b.codes[i] = static_cast<uint8_t>(b.codes[i] | (p[16 + i] >> block % 8 & 1) << 4);
    return b;
}

Block read_q6_k(const uint8_t* row, int64_t block) {
    const uint8_t* p = row + block / 8 * 210;
    const int64_t half = block % 8 / 4;  // of the super-block
    const int64_t part = block % 4;
    const uint8_t* low = p + half * 64 + part % 2 * 32;
    const uint8_t* high = p + 128 + half * 32;
    const uint8_t* scales = p + 192 + half * 8 + part * 2;
    Block b{.d = half_at(p + 208), .scale = {scales[0], scales[1]}};
    for (int i = 0; i < kInputs; ++i)
        b.codes[i] = static_cast<uint8_t>((low[i] >> (part / 2 * 4) & 15) |
                                          (high[i] >> (part * 2) & 3) << 4);
    return b;
}

struct Format {
    ggml_type type;
    Layout layout;
    Block (*read)(const uint8_t* row, int64_t block);
};

constexpr Format kFormats[] = {
    {GGML_TYPE_Q4_0, {4, 8, Scales::d}, read_q4_0},
    {GGML_TYPE_Q4_1, {4, 0, Scales::dm}, read_q4_1},
    {GGML_TYPE_Q5_0, {5, 16, Scales::d}, read_q5_0},
    {GGML_TYPE_Q5_1, {5, 0, Scales::dm}, read_q5_1},
    {GGML_TYPE_Q8_0, {8, 128, Scales::d}, read_q8_0},
    {GGML_TYPE_Q4_K, {4, 0, Scales::k}, read_q4_k},
    {GGML_TYPE_Q5_K, {5, 0, Scales::k}, read_q5_k},
    {GGML_TYPE_Q6_K, {6, 32, Scales::k6}, read_q6_k},
};

const Format* find_format(int32_t type) {
    const auto* at = std::find_if(std::begin(kFormats), std::end(kFormats),
                                  [&](const Format& f) { return f.type == type; });
    return at == std::end(kFormats) ? nullptr : at;
}

void put_scales(const Layout& l, const Block& b, int64_t block, int64_t output, uint8_t* scales) {
    const auto o = static_cast<size_t>(output);
    const auto put_half = [&](uint8_t* to, uint16_t bits) { std::memcpy(to + 2 * o, &bits, 2); };
    if (l.scales == Scales::d) return put_half(scales + block * 32, b.d);
    if (l.scales == Scales::dm) {
        put_half(scales + block * 64, b.d);
        return put_half(scales + block * 64 + 32, b.m);
    }
    uint8_t* super = scales + static_cast<size_t>(block / 8) * super_bytes();
    put_half(super, b.d);
    put_half(super + 32, b.m);
    uint8_t* own = super + 64 + block % 8 * 32;
    own[o] = b.scale[0];
    own[16 + o] = b.scale[1];
}

// Four codes are four bytes of an output's lane; planes shift them as one word.
void put_codes(int bits, const Block& b, int64_t output, uint8_t* codes) {
    uint32_t word[kCodeVectors];
    std::memcpy(word, b.codes, sizeof(word));
    // Inputs 0, 2, 1, 3.
    for (uint32_t& w : word) w = (w & 0xff0000ff) | (w & 0xff00) << 8 | (w & 0xff0000) >> 8;
    const auto put = [&](int vector, uint32_t value) {
        std::memcpy(codes + vector * 64 + output * 4, &value, sizeof(value));
    };
    if (bits == 8) {
        for (int v = 0; v < kCodeVectors; ++v) put(v, word[v]);
        return;
    }
    for (int v = 0; v < 4; ++v) put(v, (word[v] & 0x0f0f0f0f) | (word[v + 4] & 0x0f0f0f0f) << 4);
    if (bits == 5) {
        uint32_t plane = 0;
        for (int v = 0; v < kCodeVectors; ++v) plane |= (word[v] >> 4 & 0x01010101) << v;
        put(4, plane);
    }
    if (bits == 6) {
        for (int p = 0; p < 2; ++p) {
            uint32_t plane = 0;
            for (int j = 0; j < 4; ++j) plane |= (word[4 * p + j] >> 4 & 0x03030303) << 2 * j;
            put(4 + p, plane);
        }
    }
}

}  // namespace

std::optional<Layout> layout_for(int32_t ggml_type, int64_t n_in, int64_t n_out) {
    const Format* f = find_format(ggml_type);
    if (f == nullptr || n_in % kInputs != 0 || n_out % kOutputs != 0) return std::nullopt;
    return f->layout;
}

size_t packed_bytes(const Layout& layout, int64_t n_in, int64_t n_out) {
    return group_bytes(layout, n_in) * static_cast<size_t>(n_out / kOutputs);
}

void pack(int32_t ggml_type, const void* weights, size_t row_bytes, int64_t n_in, int64_t n_out,
          std::byte* out) {
    const Format& f = *find_format(ggml_type);
    // Padding between scales and codes.
    std::memset(out, 0, packed_bytes(f.layout, n_in, n_out));
    const auto* from = static_cast<const uint8_t*>(weights);
    auto* group = reinterpret_cast<uint8_t*>(out);
    for (int64_t first = 0; first < n_out; first += kOutputs) {
        uint8_t* codes = group + scales_bytes(f.layout, n_in);
        for (int64_t o = 0; o < kOutputs; ++o) {
            const uint8_t* row = from + static_cast<size_t>(first + o) * row_bytes;
            for (int64_t b = 0; b < blocks_of(n_in); ++b) {
                const Block block = f.read(row, b);
                put_scales(f.layout, block, b, o, group);
                put_codes(f.layout.bits, block, o,
                          codes + static_cast<size_t>(b) * code_block_bytes(f.layout.bits));
            }
        }
        group += group_bytes(f.layout, n_in);
    }
}

}  // namespace quire::packed
