// Tiles of compressed pages, as micro-kernels read them.
//
// CodeTile reads pages: an ISA that can take codes out of their bit planes in registers does so
// (PlaneReader), else the tile's codes are first unpacked to bytes, a sixteenth of float32, in the
// thread's scratch. ScaledTile is a float32 copy of numbers before scales, for many rows.
#pragma once

#include "kernels/cpu/generic/code_pages.h"

namespace quire::kernels::generic {

// Codes of kBits in registers: an ISA specialises what it can.
template <class V, int kBits>
struct PlaneReader {
    static constexpr bool kReadsK = false;
    static constexpr bool reads_v(int /*head_dim*/) { return false; }
};

template <class V>
struct CodeTile {
    using f32 = typename V::f32;
    static constexpr bool kScaled = true;

    const CodePages<V>& pages;
    const TileScales& scales;
    uint8_t* room;  // for [64][head_dim] codes
    CodeGroup groups[kTileGroups];
    CodeGroup next[kTileGroups];  // to be prefetched; may equal groups

    uint8_t* room_of(int group) const {
        return room + group * kGroupKeys * pages.layout().head_dim;
    }

    template <int R>
    void score(const float* q, int head_dim, float* s) const {
        with_bits<V>(pages.layout().k_bits, [&]<int kBits>() {
            if constexpr (PlaneReader<V, kBits>::kReadsK)
                PlaneReader<V, kBits>::template score<R>(q, *this, head_dim, s);
            else
                score_rows<V, R>(q, k_as_bytes<kBits>(), head_dim, s);
        });
    }
    template <int R>
    void weigh(const float* p, int key_begin, int key_end, const f32* correction, float* out,
               int head_dim) const {
        with_bits<V>(pages.layout().v_bits, [&]<int kBits>() {
            using Planes = PlaneReader<V, kBits>;
            if constexpr (Planes::reads_v(64)) {
                if (Planes::reads_v(head_dim))
                    return Planes::template weigh<R>(p, *this, key_begin, key_end, correction, out,
                                                     head_dim);
            }
            weigh_rows<V, R>(p, v_as_bytes<kBits>(key_begin, key_end), key_begin, key_end,
                             correction, out, head_dim);
        });
    }

 private:
    template <int kBits>
    struct KBytes {
        const CodeTile& tile;
        CodeLevels<V, kBits> level;
        const uint8_t* at[kTileGroups];

        f32 k(int group, int d, int first_key) const {
            return level(at[group] + d * kGroupKeys + first_key);
        }
        template <int kGroups>
        void prefetch_k(int first_group, int d) const {
            tile.pages.fetch_k(tile.next + first_group, kGroups, d, 2);
        }
    };
    template <int kBits>
    struct VBytes {
        const CodeTile& tile;
        CodeLevels<V, kBits> level;
        const uint8_t* at[kTileGroups];
        int64_t head_dim;

        f32 v(int group, int key, int d) const { return level(at[group] + key * head_dim + d); }
        template <int kDims>
        void prefetch_v(int group, int key, int d) const {
            if (key % 2 == 0) tile.pages.fetch_v(tile.next[group], key, 2, d, kDims);
        }
    };

    template <int kBits>
    [[gnu::noinline]] KBytes<kBits> k_as_bytes() const {
        KBytes<kBits> bytes{*this, {}, {}};
        for (int g = 0; g < kTileGroups; ++g)
            bytes.at[g] = pages.template k_bytes<kBits>(groups[g], room_of(g));
        return bytes;
    }
    template <int kBits>
    [[gnu::noinline]] VBytes<kBits> v_as_bytes(int key_begin, int key_end) const {
        VBytes<kBits> bytes{*this, {}, {}, pages.layout().head_dim};
        for (int g = key_begin / kGroupKeys; g * kGroupKeys < key_end; ++g)
            bytes.at[g] = pages.template v_bytes<kBits>(groups[g], room_of(g));
        return bytes;
    }
};

template <class V>
struct ScaledTile : FloatTile<V> {
    static constexpr bool kScaled = true;
    const TileScales& scales;
};

// A group's numbers before scales, into columns 16 `i`... of K and rows 16 `i`... of V.
template <class V>
void convert_codes(const CodePages<V>& pages, const CodeGroup& g, int i, float* k_tile,
                   float* v_tile) {
    const auto head_dim = static_cast<int>(pages.layout().head_dim);
    alignas(64) uint8_t room[kGroupKeys * 256];
    with_bits<V>(pages.layout().k_bits, [&]<int kBits>() {
        const CodeLevels<V, kBits> level;
        const uint8_t* codes = pages.template k_bytes<kBits>(g, room);
        for (int d = 0; d < head_dim; ++d)
            for (int j = 0; j < kGroupKeys; j += V::kLanes)
                V::store(k_tile + d * kKeyTileTokens + i * kGroupKeys + j,
                         level(codes + d * kGroupKeys + j));
    });
    with_bits<V>(pages.layout().v_bits, [&]<int kBits>() {
        const CodeLevels<V, kBits> level;
        const uint8_t* codes = pages.template v_bytes<kBits>(g, room);
        float* to = v_tile + int64_t{i} * kGroupKeys * head_dim;
        for (int j = 0; j < kGroupKeys * head_dim; j += V::kLanes)
            V::store(to + j, level(codes + j));
    });
}

}  // namespace quire::kernels::generic
