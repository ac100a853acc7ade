// Where a micro-kernel finds the numbers of one tile of 64 keys.
//
// PageTile reads pages in place and converts on the way (a decode: each number is used by few
// rows). FloatTile reads a float32 copy in the thread's scratch (a prefill: each number is used by
// many rows). A *group* is 16 consecutive keys; a group never crosses a block, so a tile is four
// groups.
#pragma once

#include "kernels/attention_plan.h"

namespace quire::kernels::generic {

inline constexpr int kGroupKeys = 16;
inline constexpr int kTileGroups = kKeyTileTokens / kGroupKeys;

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
    // Whether two dimensions of a group lie on one cache line.
    bool two_dims_a_line() const { return k_stride_ == 16; }

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

    const Reader& reader;
    Group groups[kTileGroups];
    Group next[kTileGroups];  // of the tile after this one, to be prefetched; may equal groups

    f32 k(int group, int d, int first_key) const { return reader.k(groups[group], d, first_key); }
    f32 v(int key, int d) const { return reader.v(groups[key / kGroupKeys], key % kGroupKeys, d); }
    // Each call fetches one line a group: while keys of dimension d are read, the same keys of the
    // next tile; with two dimensions a line, half of the groups now and half at the next d.
    template <int kGroups>
    void prefetch_k(int first_group, int d) const {
        const int odd = reader.two_dims_a_line() ? d & 1 : 0;
        if constexpr (kGroups == 1) {
            if (odd == 0) V::prefetch(reader.k_address(next[first_group], d));
        } else {
            for (int g = 0; g < kGroups; g += 2)
                V::prefetch(reader.k_address(next[first_group + g + odd], d));
        }
    }
    template <int kDims>
    void prefetch_v(int key, int d) const {
        for (int i = 0; i < kDims; i += 32)
            V::prefetch(reader.v_address(next[key / kGroupKeys], key % kGroupKeys, d + i));
    }
};

template <class V>
struct FloatTile {
    using f32 = typename V::f32;

    const float* k_data;  // [head_dim][64]
    const float* v_data;  // [64][head_dim]
    int64_t head_dim;

    f32 k(int group, int d, int first_key) const {
        return V::load(k_data + d * kKeyTileTokens + group * kGroupKeys + first_key);
    }
    f32 v(int key, int d) const { return V::load(v_data + key * head_dim + d); }
    template <int kGroups>
    void prefetch_k(int, int) const {}
    template <int kDims>
    void prefetch_v(int, int) const {}
};

}  // namespace quire::kernels::generic
