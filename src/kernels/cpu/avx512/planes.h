// Codes of 2, 3 and 4 bits from their planes straight into registers.
//
// Ports 0 and 5 are the limit, so operations are counted. A plane's 16 bytes are widened once for
// the rows that share them; a look-up ignores all but four bits of an index, so bits that belong to
// other rows stay where they are and the table repeats its entries over them. Operations a row of
// 16 codes, beside its multiply-adds: 4 bits 2, 3 bits 3.25, 2 bits 1.5; a 16-bit float takes 2.
#pragma once

#include "kernels/cpu/avx512/isa.h"
#include "kernels/cpu/generic/code_tiles.h"

namespace quire::kernels::generic {

// Levels by an index whose code has its bits elsewhere: bit b of the code is bit bits[b] of the
// index.
template <int kBits>
[[gnu::always_inline]] inline __m512 scattered_levels(const int (&bits)[kBits]) {
    alignas(64) float table[16];
    for (int i = 0; i < 16; ++i) {
        int code = 0;
        for (int b = 0; b < kBits; ++b) code |= (i >> bits[b] & 1) << b;
        table[i] = kLevelTable<kBits>.level[code];
    }
    return _mm512_load_ps(table);
}

// Rows come in runs of 8: load<J>(from, row) at row = 8 i + J, then value<J>().
template <int kBits>
struct PlaneWords;

template <>
struct PlaneWords<4> {
    struct Tables {
        __m512 levels = scattered_levels<4>({0, 1, 2, 3});
    };
    struct Planes {
        const uint8_t* high;
    };
    __m512i word;

    template <int J>
    [[gnu::always_inline]] void load(const Planes& from, int64_t row) {
        if constexpr (J % 2 == 0) word = Avx512::load_u8(from.high + row / 2 * 16);
    }
    template <int J>
    [[gnu::always_inline]] __m512 value(const Tables& t) const {
        return _mm512_permutexvar_ps(J % 2 == 0 ? word : _mm512_srli_epi32(word, 4), t.levels);
    }
};

template <>
struct PlaneWords<2> {
    struct Tables {
        __m512 low = scattered_levels<2>({0, 1});
        __m512 high = scattered_levels<2>({2, 3});
    };
    struct Planes {
        const uint8_t* high;
    };
    __m512i word;

    template <int J>
    [[gnu::always_inline]] void load(const Planes& from, int64_t row) {
        if constexpr (J % 4 == 0) word = Avx512::load_u8(from.high + row / 4 * 16);
        if constexpr (J % 4 == 2) word = _mm512_srli_epi32(word, 4);
    }
    template <int J>
    [[gnu::always_inline]] __m512 value(const Tables& t) const {
        return _mm512_permutexvar_ps(word, J % 2 == 0 ? t.low : t.high);
    }
};

template <>
struct PlaneWords<3> {
    // Of four rows in turn the two high bits are bits 0-1, 2-3, 4-5, 6-7 of `high`, the lowest bit
    // is bit 0, 1, 2, 3 of `low`.
    struct Tables {
        __m512 even = scattered_levels<3>({2, 0, 1});
        __m512 odd = scattered_levels<3>({1, 2, 3});
        __m512i two = _mm512_set1_epi32(3);
        __m512i upper_two = _mm512_set1_epi32(12);
    };
    struct Planes {
        const uint8_t* high;
        const uint8_t* low;
    };
    __m512i high, low;

    template <int J>
    [[gnu::always_inline]] void load(const Planes& from, int64_t row) {
        if constexpr (J % 4 == 0) high = Avx512::load_u8(from.high + row / 4 * 16);
        if constexpr (J % 4 == 2) high = _mm512_srli_epi32(high, 4);
        if constexpr (J == 0) low = Avx512::load_u8(from.low + row / 8 * 16);
        if constexpr (J == 4) low = _mm512_srli_epi32(low, 4);
    }
    // Rows 4 i to 4 i + 3 alone, for V.
    [[gnu::always_inline]] void load_low_of_four(const Planes& from, int64_t row, __m512i shift) {
        low = _mm512_srlv_epi32(Avx512::load_u8(from.low + row / 8 * 16), shift);
    }
    template <int J>
    [[gnu::always_inline]] __m512 value(const Tables& t) const {
        constexpr int kRow = J % 4, kSelect = 0xca;  // mask ? high : low
        const __m512i bit = kRow == 0   ? _mm512_slli_epi32(low, 2)
                            : kRow == 3 ? _mm512_srli_epi32(low, 2)
                                        : low;
        return _mm512_permutexvar_ps(
            _mm512_ternarylogic_epi32(kRow % 2 == 0 ? t.two : t.upper_two, high, bit, kSelect),
            kRow % 2 == 0 ? t.even : t.odd);
    }
};

template <int kBits>
    requires(kBits >= 2 && kBits <= 4)
struct PlaneReader<Avx512, kBits> {
    using Words = PlaneWords<kBits>;
    using Planes = typename Words::Planes;
    using Tile = CodeTile<Avx512>;
    static constexpr bool kReadsK = true;
    // A pass takes four rows of one key, so these must not straddle what shares a byte.
    static constexpr bool reads_v(int head_dim) { return head_dim % 64 == 0; }

    template <int R>
    static void score(const float* q, const Tile& tile, int head_dim, float* s) {
        Planes planes[kTileGroups];
        for (int g = 0; g < kTileGroups; ++g) planes[g] = k_planes(tile.pages, tile.groups[g]);
        const typename Words::Tables tables;
        __m512 acc[R][kTileGroups];
        for (int r = 0; r < R; ++r)
            for (int g = 0; g < kTileGroups; ++g) acc[r][g] = _mm512_setzero_ps();
        for (int d = 0; d < head_dim; d += 8) {
            if (d % 16 == 0) tile.fetch_k(0, kTileGroups, d);
            Words words[kTileGroups];
            each_of<8>([&]<int J>() __attribute__((always_inline)) {
                __m512 k[kTileGroups];
                for (int g = 0; g < kTileGroups; ++g) {
                    words[g].template load<J>(planes[g], d + J);
                    k[g] = words[g].template value<J>(tables);
                }
                for (int r = 0; r < R; ++r) {
                    const __m512 x = _mm512_set1_ps(q[(d + J) * R + r]);
                    for (int g = 0; g < kTileGroups; ++g)
                        acc[r][g] = _mm512_fmadd_ps(x, k[g], acc[r][g]);
                }
            });
        }
        for (int r = 0; r < R; ++r)
            for (int g = 0; g < kTileGroups; ++g)
                _mm512_storeu_ps(s + r * kKeyTileTokens + g * kGroupKeys, acc[r][g]);
    }

    template <int R>
    static void weigh(const float* p, const Tile& tile, int key_begin, int key_end,
                      const __m512* correction, float* out, int64_t head_dim) {
        const typename Words::Tables tables;
        for (int64_t d = 0; d < head_dim; d += 64) {
            __m512 acc[R][4];
            for (int r = 0; r < R; ++r)
                for (int i = 0; i < 4; ++i)
                    acc[r][i] = _mm512_mul_ps(_mm512_loadu_ps(out + r * head_dim + d + i * 16),
                                              correction[r]);
            for (int group = key_begin / kGroupKeys; group * kGroupKeys < key_end; ++group) {
                const int base = group * kGroupKeys;
                const int begin = key_begin > base ? key_begin - base : 0;
                const int end = key_end - base < kGroupKeys ? key_end - base : kGroupKeys;
                const Planes planes = v_planes(tile.pages, tile.groups[group]);
                for (int key = begin; key < end; ++key) {
                    if (key % 4 == 0) tile.fetch_v(group, key, static_cast<int>(d), 64);
                    add_key<R>(p + base + key, planes, key * (head_dim / 16) + d / 16, tables, acc);
                }
            }
            for (int r = 0; r < R; ++r)
                for (int i = 0; i < 4; ++i)
                    _mm512_storeu_ps(out + r * head_dim + d + i * 16, acc[r][i]);
        }
    }

 private:
    // Calls step<0>() to step<n - 1>().
    template <int kTimes, int J = 0, class Step>
    [[gnu::always_inline]] static void each_of(const Step& step) {
        step.template operator()<J>();
        if constexpr (J + 1 < kTimes) each_of<kTimes, J + 1>(step);
    }

    [[gnu::always_inline]] static Planes k_planes(const CodePages<Avx512>& pages,
                                                  const CodeGroup& g) {
        if constexpr (kBits == 3)
            return {pages.k_plane<3, 0>(g), pages.k_plane<3, 1>(g)};
        else
            return {pages.k_plane<kBits, 0>(g)};
    }
    [[gnu::always_inline]] static Planes v_planes(const CodePages<Avx512>& pages,
                                                  const CodeGroup& g) {
        if constexpr (kBits == 3)
            return {pages.v_plane<3, 0>(g), pages.v_plane<3, 1>(g)};
        else
            return {pages.v_plane<kBits, 0>(g)};
    }

    // acc[r] += p[r] * V of one key, the four rows from `row` on.
    template <int R>
    [[gnu::always_inline]] static void add_key(const float* p, const Planes& planes, int64_t row,
                                               const typename Words::Tables& tables,
                                               __m512 (&acc)[R][4]) {
        Words words;
        if constexpr (kBits == 3)
            words.load_low_of_four(planes, row, _mm512_set1_epi32(static_cast<int>(row & 4)));
        each_of<4>([&]<int J>() __attribute__((always_inline)) {
            if constexpr (kBits == 3)
                words.template load<J + 8>(planes, row + J);
            else
                words.template load<J>(planes, row + J);
            const __m512 v = words.template value<J>(tables);
            for (int r = 0; r < R; ++r)
                acc[r][J] = _mm512_fmadd_ps(_mm512_set1_ps(p[r * kKeyTileTokens]), v, acc[r][J]);
        });
    }
};

}  // namespace quire::kernels::generic
