// slots: the cache slots of vLLM's TurboQuant. README.md has the formula and the layout.
#pragma once

#include "codec/codec.h"

namespace quire::codec::slots {

uint32_t ref_encode(const EncodePage& job);
void ref_decode(const DecodePage& job);
uint32_t avx2_encode(const EncodePage& job);  // AVX2, FMA, F16C
void avx2_decode(const DecodePage& job);
uint32_t avx512_encode(const EncodePage& job);  // AVX-512 F, BW, VL, DQ
void avx512_decode(const DecodePage& job);

inline constexpr uint16_t kOptionQgroup4 = 1;
inline constexpr uint32_t kMaxRotated = 256;
inline constexpr uint32_t kMaxSlotBytes = 2 * kMaxHeadDim;

// A slot's parts.
struct Shape {
    uint32_t head_dim;
    uint32_t block_tokens;
    uint32_t k_bits;  // 8: E4M3
    uint32_t v_bits;
    bool is_planes;  // the layout of qgroup4

    [[gnu::always_inline]] constexpr bool is_rotated() const { return k_bits != 8; }
    [[gnu::always_inline]] constexpr uint32_t k_codes_bytes() const {
        return head_dim * k_bits / 8;
    }
    [[gnu::always_inline]] constexpr uint32_t v_codes_bytes() const {
        return head_dim * v_bits / 8;
    }
    [[gnu::always_inline]] constexpr uint32_t k_bytes() const {
        return k_codes_bytes() + (is_rotated() ? 2 : 0);
    }
    [[gnu::always_inline]] constexpr uint32_t slot_bytes() const {
        return k_bytes() + v_codes_bytes() + 4;
    }
};

[[gnu::always_inline]] constexpr Shape shape_of(const CodecSpec& spec, const Geometry& g) {
    return {g.head_dim, g.block_tokens, spec.k_bits, spec.v_bits,
            (spec.option & kOptionQgroup4) != 0};
}

// Where byte `i` of token `t`'s slot lies in the page.
[[gnu::always_inline]] constexpr size_t byte_at(const Shape& s, uint32_t t, uint32_t i) {
    if (!s.is_planes) return size_t{t} * s.slot_bytes() + i;
    const size_t k = s.k_codes_bytes(), v = s.v_codes_bytes();
    const size_t meta = (k + v) * s.block_tokens + size_t{6} * t;
    if (i < k) return size_t{i} * s.block_tokens + t;
    if (i < k + 2) return meta + (i - k);
    if (i < k + 2 + v) return (i - 2) * size_t{s.block_tokens} + t;
    return meta + 2 + (i - k - 2 - v);
}

// Bytes [first, first + count) of a slot from or to a page.
[[gnu::always_inline]] inline void copy_in(const Shape& s, const std::byte* slot, uint32_t first,
                                           uint32_t count, uint32_t t, std::byte* page) {
    if (!s.is_planes) {
        __builtin_memcpy(page + byte_at(s, t, first), slot + first, count);
        return;
    }
    for (uint32_t i = first; i < first + count; ++i) page[byte_at(s, t, i)] = slot[i];
}
[[gnu::always_inline]] inline void copy_out(const Shape& s, const std::byte* page, uint32_t first,
                                            uint32_t count, uint32_t t, std::byte* slot) {
    if (!s.is_planes) {
        __builtin_memcpy(slot + first, page + byte_at(s, t, first), count);
        return;
    }
    for (uint32_t i = first; i < first + count; ++i) slot[i] = page[byte_at(s, t, i)];
}

inline constexpr float kNormFloor = 1e-8f;
inline constexpr float kSquaresFloor = 1e-16f;
inline constexpr float kSmallestStep = 1e-8f;
inline constexpr float kLargestHalf = 65504.0f;

}  // namespace quire::codec::slots
