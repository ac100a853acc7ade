#include "engine/model/kquant_rows.h"

#include <cstring>

#include <ggml.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define QUIRE_AVX2 __attribute__((target("avx2,fma,f16c")))
#endif

namespace quire {

#if defined(__x86_64__)
namespace {

constexpr int64_t kBlock = 256;

// ggml's block layouts, by their documented byte order.
struct BlockQ4K {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t qs[128];
};
struct BlockQ5K {
    uint16_t d, dmin;
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
};
struct BlockQ6K {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint16_t d;
};
struct BlockQ8K {
    float d;
    int8_t qs[256];
    int16_t bsums[16];
};
static_assert(sizeof(BlockQ4K) == 144 && sizeof(BlockQ5K) == 176 && sizeof(BlockQ6K) == 210 &&
              sizeof(BlockQ8K) == 292);

// The two integer sums of one block, still spread over lanes.
struct Sums {
    __m256i s1, s2;
};

QUIRE_AVX2 inline __m256i load(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

QUIRE_AVX2 inline int32_t lane_sum(__m256i v) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
    return _mm_cvtsi128_si32(s);
}

// The 6-bit scales and mins of Q4_K and Q5_K as 8 + 8 bytes: scales low, mins high.
QUIRE_AVX2 inline __m128i unpack_scales(const uint8_t* packed) {
    uint32_t in[3];
    memcpy(in, packed, sizeof in);
    const uint32_t s_low = in[0] & 0x3f3f3f3f;
    const uint32_t s_high = (in[2] & 0x0f0f0f0f) | (((in[0] >> 6) & 0x03030303) << 4);
    const uint32_t m_low = in[1] & 0x3f3f3f3f;
    const uint32_t m_high = ((in[2] >> 4) & 0x0f0f0f0f) | (((in[1] >> 6) & 0x03030303) << 4);
    return _mm_setr_epi32(static_cast<int>(s_low), static_cast<int>(s_high),
                          static_cast<int>(m_low), static_cast<int>(m_high));
}

QUIRE_AVX2 inline __m256i mins_sum(__m128i scales_mins, const BlockQ8K& y) {
    const __m128i mins = _mm_cvtepu8_epi16(_mm_unpackhi_epi64(scales_mins, scales_mins));
    const __m256i both =
        _mm256_set_m128i(_mm_unpackhi_epi16(mins, mins), _mm_unpacklo_epi16(mins, mins));
    return _mm256_madd_epi16(both, load(y.bsums));
}

// Scale s of 8 in every 16-bit lane, from the low 8 bytes of `scales16` (as 16-bit).
QUIRE_AVX2 inline __m256i scale_lane(__m256i scales16, int s) {
    const __m256i pick = _mm256_set1_epi16(static_cast<int16_t>(((2 * s + 1) << 8) | (2 * s)));
    return _mm256_shuffle_epi8(scales16, pick);
}

QUIRE_AVX2 inline __m256i scaled_dot(__m256i q, const int8_t* y, __m256i scale) {
    return _mm256_madd_epi16(scale, _mm256_maddubs_epi16(q, load(y)));
}

QUIRE_AVX2 inline Sums sums_q4k(const BlockQ4K& x, const BlockQ8K& y) {
    const __m128i sm = unpack_scales(x.scales);
    const __m256i scales16 = _mm256_broadcastsi128_si256(_mm_cvtepu8_epi16(sm));
    const __m256i low4 = _mm256_set1_epi8(15);
    __m256i s1 = _mm256_setzero_si256();
    for (int j = 0; j < 4; ++j) {
        const __m256i q = load(x.qs + 32 * j);
        const __m256i low = _mm256_and_si256(q, low4);
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(q, 4), low4);
        s1 = _mm256_add_epi32(s1, scaled_dot(low, y.qs + 64 * j, scale_lane(scales16, 2 * j)));
        s1 = _mm256_add_epi32(
            s1, scaled_dot(high, y.qs + 64 * j + 32, scale_lane(scales16, 2 * j + 1)));
    }
    return {s1, mins_sum(sm, y)};
}

QUIRE_AVX2 inline Sums sums_q5k(const BlockQ5K& x, const BlockQ8K& y) {
    const __m128i sm = unpack_scales(x.scales);
    const __m256i scales16 = _mm256_broadcastsi128_si256(_mm_cvtepu8_epi16(sm));
    const __m256i low4 = _mm256_set1_epi8(15);
    const __m256i one = _mm256_set1_epi8(1);
    __m256i high_bits = load(x.qh);
    __m256i s1 = _mm256_setzero_si256();
    for (int j = 0; j < 4; ++j) {
        const __m256i q = load(x.qs + 32 * j);
        const __m256i bit0 = _mm256_slli_epi16(_mm256_and_si256(high_bits, one), 4);
        high_bits = _mm256_srli_epi16(high_bits, 1);
        const __m256i bit1 = _mm256_slli_epi16(_mm256_and_si256(high_bits, one), 4);
        high_bits = _mm256_srli_epi16(high_bits, 1);
        const __m256i low = _mm256_or_si256(_mm256_and_si256(q, low4), bit0);
        const __m256i high = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(q, 4), low4), bit1);
        s1 = _mm256_add_epi32(s1, scaled_dot(low, y.qs + 64 * j, scale_lane(scales16, 2 * j)));
        s1 = _mm256_add_epi32(
            s1, scaled_dot(high, y.qs + 64 * j + 32, scale_lane(scales16, 2 * j + 1)));
    }
    return {s1, mins_sum(sm, y)};
}

// Two scales of 16 weights each over the halves of a register: bytes 2s and 2s + 1 of 16.
QUIRE_AVX2 inline __m256i scale_pair(__m128i scales, int s) {
    const __m128i pick =
        _mm_set_epi64x(0x0101010101010101 * (2 * s + 1), 0x0101010101010101 * (2 * s));
    return _mm256_cvtepi8_epi16(_mm_shuffle_epi8(scales, pick));
}

QUIRE_AVX2 inline Sums sums_q6k(const BlockQ6K& x, const BlockQ8K& y) {
    const __m128i scales = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x.scales));
    const __m256i low4 = _mm256_set1_epi8(15);
    const __m256i two = _mm256_set1_epi8(3);
    // Weights are stored plus 32: take 32 times the scaled sums of the activations off again.
    const __m256i bias =
        _mm256_slli_epi32(_mm256_madd_epi16(_mm256_cvtepi8_epi16(scales), load(y.bsums)), 5);
    __m256i s1 = _mm256_sub_epi32(_mm256_setzero_si256(), bias);
    for (int half = 0; half < 2; ++half) {
        const __m256i l0 = load(x.ql + 64 * half);
        const __m256i l1 = load(x.ql + 64 * half + 32);
        const __m256i h = load(x.qh + 32 * half);
        const __m256i h0 = _mm256_slli_epi16(_mm256_and_si256(h, two), 4);
        const __m256i h1 = _mm256_slli_epi16(_mm256_and_si256(_mm256_srli_epi16(h, 2), two), 4);
        const __m256i h2 = _mm256_slli_epi16(_mm256_and_si256(_mm256_srli_epi16(h, 4), two), 4);
        const __m256i h3 = _mm256_slli_epi16(_mm256_and_si256(_mm256_srli_epi16(h, 6), two), 4);
        const __m256i q[4] = {
            _mm256_or_si256(_mm256_and_si256(l0, low4), h0),
            _mm256_or_si256(_mm256_and_si256(l1, low4), h1),
            _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(l0, 4), low4), h2),
            _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(l1, 4), low4), h3)};
        for (int i = 0; i < 4; ++i)
            s1 = _mm256_add_epi32(
                s1, scaled_dot(q[i], y.qs + 128 * half + 32 * i, scale_pair(scales, 4 * half + i)));
    }
    return {s1, _mm256_setzero_si256()};
}

template <Accumulate kAccumulate>
QUIRE_AVX2 inline float accumulate(float acc, float result, float d_act) {
    if constexpr (kAccumulate == Accumulate::fused) return __builtin_fmaf(result, d_act, acc);
    volatile float product = result * d_act;  // volatile: the compiler must not fuse it
    return acc + product;
}

template <typename Block, Sums (*kSums)(const Block&, const BlockQ8K&), bool kMins,
          Accumulate kAccumulate>
QUIRE_AVX2 float dot(const void* weight_row, const void* q8k_row, int64_t n) {
    const auto* x = static_cast<const Block*>(weight_row);
    const auto* y = static_cast<const BlockQ8K*>(q8k_row);
    float acc = 0.0f;
    for (int64_t i = 0; i < n / kBlock; ++i) {
        const Sums sums = kSums(x[i], y[i]);
        float result = _cvtsh_ss(x[i].d) * static_cast<float>(lane_sum(sums.s1));
        if constexpr (kMins) {
            const auto s2 = static_cast<float>(lane_sum(sums.s2));
            result = __builtin_fmaf(-_cvtsh_ss(x[i].dmin), s2, result);
        }
        acc = accumulate<kAccumulate>(acc, result, y[i].d);
    }
    return acc;
}

template <Accumulate kAccumulate>
KquantDot pick(int32_t type) {
    switch (type) {
        case GGML_TYPE_Q4_K:
            return dot<BlockQ4K, sums_q4k, true, kAccumulate>;
        case GGML_TYPE_Q5_K:
            return dot<BlockQ5K, sums_q5k, true, kAccumulate>;
        case GGML_TYPE_Q6_K:
            return dot<BlockQ6K, sums_q6k, false, kAccumulate>;
        default:
            return nullptr;
    }
}

}  // namespace

KquantDot kquant_dot(int32_t ggml_type, Accumulate accumulate) {
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") ||
        !__builtin_cpu_supports("f16c"))
        return nullptr;
    return accumulate == Accumulate::fused ? pick<Accumulate::fused>(ggml_type)
                                           : pick<Accumulate::separate>(ggml_type);
}

#else

KquantDot kquant_dot(int32_t, Accumulate) {
    return nullptr;
}

#endif

}  // namespace quire
