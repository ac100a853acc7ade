// Codes of 2 and 4 bits from their plane straight into registers; others as bytes (unpack.h).
//
// Ports 0 and 5 are the limit, so operations are counted. A plane's 16 bytes are widened once for
// the rows that share them; a look-up ignores all but four bits of an index, so bits that belong to
// other rows stay where they are and the table repeats its entries over them. Operations a row of
// 16 codes, beside its multiply-adds: 4 bits 2, 2 bits 1.5; a 16-bit float takes 2.
#pragma once

#include "kernels/cpu/avx512/unpack.h"
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

// Rows come in runs of 4 or 8: load<J>(from), where `from` holds row 0 of the run, then value<J>().
// The primary template reads bytes, in place or unpacked.
template <class V, int kBits>
struct PlaneWords {
    static constexpr bool kBytes = true;
    static constexpr int kRowBytes = 16;
    struct Tables {
        CodeLevels<V, kBits> level;
    };
    const uint8_t* word;

    template <int J>
    [[gnu::always_inline]] void load(const uint8_t* from) {
        word = from + J * kRowBytes;
    }
    template <int J>
    [[gnu::always_inline]] __m512 value(const Tables& t) const {
        return t.level(word);
    }
};

template <>
struct PlaneWords<Avx512, 4> {
    static constexpr bool kBytes = false;
    static constexpr int kRowBytes = 8;
    struct Tables {
        __m512 levels = scattered_levels<4>({0, 1, 2, 3});
    };
    __m512i word;

    template <int J>
    [[gnu::always_inline]] void load(const uint8_t* from) {
        if constexpr (J % 2 == 0) word = Avx512::load_u8(from + J / 2 * 16);
    }
    template <int J>
    [[gnu::always_inline]] __m512 value(const Tables& t) const {
        return _mm512_permutexvar_ps(J % 2 == 0 ? word : _mm512_srli_epi32(word, 4), t.levels);
    }
};

template <>
struct PlaneWords<Avx512, 2> {
    static constexpr bool kBytes = false;
    static constexpr int kRowBytes = 4;
    struct Tables {
        __m512 low = scattered_levels<2>({0, 1});
        __m512 high = scattered_levels<2>({2, 3});
    };
    __m512i word;

    template <int J>
    [[gnu::always_inline]] void load(const uint8_t* from) {
        if constexpr (J % 4 == 0) word = Avx512::load_u8(from + J / 4 * 16);
        if constexpr (J % 4 == 2) word = _mm512_srli_epi32(word, 4);
    }
    template <int J>
    [[gnu::always_inline]] __m512 value(const Tables& t) const {
        return _mm512_permutexvar_ps(word, J % 2 == 0 ? t.low : t.high);
    }
};

template <int kBits>
struct PlaneReader<Avx512, kBits> {
    using Words = PlaneWords<Avx512, kBits>;
    static constexpr int kRowBytes = Words::kRowBytes;
    using Tile = CodeTile<Avx512>;
    static constexpr bool kReadsK = true;
    // A pass takes four rows of one key, so these must not straddle what shares a byte.
    static constexpr bool reads_v(int head_dim) { return head_dim % 64 == 0; }

    template <int R>
    static void score(const float* q, const Tile& tile, int head_dim, float* s) {
        const uint8_t* codes[kTileGroups];
        for (int g = 0; g < kTileGroups; ++g) codes[g] = k_codes(tile, g);
        const typename Words::Tables tables;
        __m512 acc[R][kTileGroups];
        for (int r = 0; r < R; ++r)
            for (int g = 0; g < kTileGroups; ++g) acc[r][g] = _mm512_setzero_ps();
        for (int d = 0; d < head_dim; d += 8) {
            tile.pages.fetch_k(tile.next, kTileGroups, d, 8);
            Words words[kTileGroups];
            each_of<8>([&]<int J>() __attribute__((always_inline)) {
                __m512 k[kTileGroups];
                for (int g = 0; g < kTileGroups; ++g) {
                    words[g].template load<J>(codes[g] + d * kRowBytes);
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
        const uint8_t* all_codes[kTileGroups];
        for (int g = key_begin / kGroupKeys; g * kGroupKeys < key_end; ++g)
            all_codes[g] = v_codes(tile, g);
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
                const int64_t stride = head_dim / 16 * kRowBytes;  // from key to key
                const uint8_t* codes = all_codes[group] + d / 16 * kRowBytes + begin * stride;
                int key = begin;
                for (; key + kKeysPerTurn <= end; key += kKeysPerTurn) {
                    tile.pages.fetch_v(tile.next[group], key, kKeysPerTurn, static_cast<int>(d),
                                       64);
                    each_of<kKeysPerTurn>([&]<int J>() __attribute__((always_inline)) {
                        add_key<R>(p + base + key + J, codes + J * stride, tables, acc);
                    });
                    codes += kKeysPerTurn * stride;
                }
                for (; key < end; ++key, codes += stride)
                    add_key<R>(p + base + key, codes, tables, acc);
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

    static constexpr int kKeysPerTurn = 4;

    static const uint8_t* k_codes(const Tile& tile, int g) {
        if constexpr (Words::kBytes)
            return tile.pages.template k_bytes<kBits>(tile.groups[g], tile.room_of(g));
        else
            return tile.pages.template k_plane<kBits, 0>(tile.groups[g]);
    }
    static const uint8_t* v_codes(const Tile& tile, int g) {
        if constexpr (Words::kBytes)
            return tile.pages.template v_bytes<kBits>(tile.groups[g], tile.room_of(g));
        else
            return tile.pages.template v_plane<kBits, 0>(tile.groups[g]);
    }

    // acc[r] += p[r] * V of one key, four rows of codes.
    template <int R>
    [[gnu::always_inline]] static void add_key(const float* p, const uint8_t* codes,
                                               const typename Words::Tables& tables,
                                               __m512 (&acc)[R][4]) {
        Words words;
        each_of<4>([&]<int J>() __attribute__((always_inline)) {
            words.template load<J>(codes);
            const __m512 v = words.template value<J>(tables);
            for (int r = 0; r < R; ++r)
                acc[r][J] = _mm512_fmadd_ps(_mm512_set1_ps(p[r * kKeyTileTokens]), v, acc[r][J]);
        });
    }
};

}  // namespace quire::kernels::generic
