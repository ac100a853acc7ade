// Where a micro-kernel finds the numbers of one tile of 64 keys.
//
// PageTile reads pages in place and converts on the way (a decode: each number is used by few
// rows). FloatTile reads a float32 copy in the thread's scratch (a prefill: each number is used by
// many rows). A *group* is 16 consecutive keys; a group never crosses a block, so a tile is four
// groups. code_tiles.h has the tiles of compressed pages.
#pragma once

#include "base/prefetch.h"
#include "kernels/cpu/generic/micro.h"

namespace quire::kernels::generic {

// Reads pages of 16-bit numbers. A codec brings its own reader with the same functions.
template <class V, Element E>
class Raw16Reader {
 public:
    using f32 = typename V::f32;
    struct Group {  // sixteen keys of one page
        const uint16_t* k = nullptr;
        const uint16_t* v = nullptr;
    };

    explicit Raw16Reader(const AttnShape& shape)
        : k_stride_(shape.block_tokens), v_stride_(shape.head_dim) {}

    // `token` is the first key's place in its block.
    Group group(const std::byte* page, int token) const {
        const uint16_t* p = reinterpret_cast<const uint16_t*>(page);
        return {p + token, p + (k_stride_ + token) * v_stride_};
    }
    // K of dimension d, keys first_key.. of the group.
    f32 k(const Group& g, int d, int first_key) const {
        return load(g.k + d * k_stride_ + first_key);
    }
    // V of one key of the group, dimensions d...
    f32 v(const Group& g, int key, int d) const { return load(g.v + key * v_stride_ + d); }

    const void* k_address(const Group& g, int d) const { return g.k + d * k_stride_; }
    const void* v_address(const Group& g, int key, int d) const {
        return g.v + key * v_stride_ + d;
    }

 private:
    static f32 load(const uint16_t* p) {
        if constexpr (E == Element::f16) return V::load_f16(p);
        return V::load_bf16(p);
    }
    int64_t k_stride_;
    int64_t v_stride_;
};

template <class V, class Reader>
struct PageTile {
    using f32 = typename V::f32;
    using Group = typename Reader::Group;
    static constexpr bool kScaled = false;

    const Reader& reader;
    Group groups[kTileGroups];
    Group next[kTileGroups];  // of the tile after this one, to be prefetched; may equal groups
    bool next_fits_l1;        // beside what is in use

    template <int R>
    void score(const float* q, int head_dim, float* s) const {
        score_rows<V, R>(q, *this, head_dim, s);
    }
    template <int R>
    void weigh(const float* p, int key_begin, int key_end, const f32* correction, float* out,
               int head_dim) const {
        weigh_rows<V, R>(p, *this, key_begin, key_end, correction, out, head_dim);
    }

    f32 k(int group, int d, int first_key) const { return reader.k(groups[group], d, first_key); }
    f32 v(int group, int key, int d) const { return reader.v(groups[group], key, d); }

    // While keys of dimensions d and d + 1 are read: the same of the next tile. In blocks of 16
    // tokens both lie on one line; in longer blocks the second lies beside the first, and the CPU
    // fetches pairs.
    template <int kGroups>
    void prefetch_k(int first_group, int d) const {
        for (int g = first_group; g < first_group + kGroups; ++g)
            prefetch(reader.k_address(next[g], d));
    }
    template <int kDims>
    void prefetch_v(int group, int key, int d) const {
        for (int i = 0; i < kDims; i += 32) prefetch(reader.v_address(next[group], key, d + i));
    }
    void prefetch(const void* p) const {
        if (next_fits_l1)
            prefetch_l1(p);
        else
            prefetch_l2(p);
    }
};

template <class V>
struct FloatTile {
    using f32 = typename V::f32;
    static constexpr bool kScaled = false;

    const float* k_data;  // [head_dim][64]
    const float* v_data;  // [64][head_dim]
    int64_t head_dim;

    template <int R>
    void score(const float* q, int dims, float* s) const {
        score_rows<V, R>(q, *this, dims, s);
    }
    template <int R>
    void weigh(const float* p, int key_begin, int key_end, const f32* correction, float* out,
               int dims) const {
        weigh_rows<V, R>(p, *this, key_begin, key_end, correction, out, dims);
    }

    f32 k(int group, int d, int first_key) const {
        return V::load(k_data + d * kKeyTileTokens + group * kGroupKeys + first_key);
    }
    f32 v(int group, int key, int d) const {
        return V::load(v_data + (group * kGroupKeys + key) * head_dim + d);
    }
    template <int kGroups>
    void prefetch_k(int, int) const {}
    template <int kDims>
    void prefetch_v(int, int, int) const {}
};

}  // namespace quire::kernels::generic
