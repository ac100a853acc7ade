// Compressed pages of the hot family: where sixteen keys lie, their scales, their codes as bytes.
// Layout and levels are those of codec/hot.
#pragma once

#include "base/prefetch.h"
#include "codec/hot/generic/planes.h"
#include "codec/hot/scale.h"
#include "kernels/cpu/generic/scales.h"
#include "kernels/cpu/generic/tiles.h"

namespace quire::kernels::generic {

namespace hot = codec::hot;

// Calls run<bits> for a width that is known only now.
template <class V, int kBits = hot::kMinBits, class Run>
[[gnu::always_inline]] inline void with_bits(int bits, Run run) {
    if constexpr (kBits < hot::kMaxBits) {
        if (bits != kBits) return with_bits<V, kBits + 1>(bits, run);
    }
    run.template operator()<kBits>();
}

// How much too large an integer code is stored.
[[gnu::always_inline]] constexpr float code_offset(int bits) {
    return hot::is_lloyd(bits) ? 0.0f : static_cast<float>(hot::magnitudes(bits));
}

// The number that a code stands for, before offset and scale. A table of 32 repeats itself, so that
// an index may have any bits above those of the code.
template <int kBits>
struct LevelTable {
    alignas(64) float level[32] = {};
    [[gnu::always_inline]] constexpr LevelTable() {
        constexpr int kHalf = hot::magnitudes(kBits);
        for (int i = 0; i < 32; ++i) {
            const int code = i & (2 * kHalf - 1);
            level[i] = code < kHalf ? -hot::lloyd_levels(kBits)[kHalf - 1 - code]
                                    : hot::lloyd_levels(kBits)[code - kHalf];
        }
    }
};
template <int kBits>
inline constexpr LevelTable<kBits> kLevelTable;

template <class V, int kBits>
struct CodeLevels {
    typename V::template Table<1 << kBits> table{kLevelTable<kBits>.level};
    [[gnu::always_inline]] typename V::f32 operator()(const uint8_t* codes) const {
        return table.look_up(V::load_u8(codes));
    }
};
template <class V, int kBits>
    requires(!hot::is_lloyd(kBits))
struct CodeLevels<V, kBits> {
    [[gnu::always_inline]] typename V::f32 operator()(const uint8_t* codes) const {
        return V::to_float(V::load_u8(codes));
    }
};

// Codes of one group and side as bytes; those of Lloyd levels may have any bits above the code's.
// An ISA may specialise it.
template <class V, int kBits>
struct Unpack {
    static void group(const hot::Shape& s, const std::byte* side, uint32_t group, uint8_t* room) {
        hot::generic::unpack_group<V, kBits>(s, side, group, room);
    }
};

// Sixteen keys of one page.
struct CodeGroup {
    const std::byte* page;
    uint32_t index;  // of the group in its block
};

// One shape's pages.
template <class V>
class CodePages {
 public:
    explicit CodePages(const AttnShape& shape)
        : layout_{shape.codes.k_bits, shape.codes.v_bits, static_cast<uint32_t>(shape.head_dim),
                  static_cast<uint32_t>(shape.block_tokens)} {
        n_k_lines_ = add_side_lines(0, hot::k_offset(layout_), layout_.k_bits,
                                    hot::k_scales_offset(layout_));
        n_lines_ = add_side_lines(n_k_lines_, hot::v_offset(layout_), layout_.v_bits,
                                  hot::v_scales_offset(layout_));
        const uint32_t dims = layout_.head_dim;
        k_step_ = ((n_k_lines_ << 16) + dims - 1) / dims;
        v_step_ = (((n_lines_ - n_k_lines_) << 16) + dims - 1) / dims;
    }

    const hot::Shape& layout() const { return layout_; }

    // `token` is the first key's place in its block.
    static CodeGroup group(const std::byte* page, int token) {
        return {page, static_cast<uint32_t>(token) / kGroupKeys};
    }
    // The first row of a group in a plane of K or of V.
    template <int kBits, int kPlane>
    const uint8_t* k_plane(const CodeGroup& g) const {
        return plane<kBits, kPlane>(g.page + hot::k_offset(layout_), g.index);
    }
    template <int kBits, int kPlane>
    const uint8_t* v_plane(const CodeGroup& g) const {
        return plane<kBits, kPlane>(g.page + hot::v_offset(layout_), g.index);
    }

    // Codes as bytes, [head_dim][16] of K or [16][head_dim] of V: in place, or in `room`.
    template <int kBits>
    const uint8_t* k_bytes(const CodeGroup& g, uint8_t* room) const {
        if constexpr (kBits == 8) return k_plane<8, 0>(g);
        Unpack<V, kBits>::group(layout_, g.page + hot::k_offset(layout_), g.index, room);
        return room;
    }
    template <int kBits>
    const uint8_t* v_bytes(const CodeGroup& g, uint8_t* room) const {
        if constexpr (kBits == 8) return v_plane<8, 0>(g);
        Unpack<V, kBits>::group(layout_, g.page + hot::v_offset(layout_), g.index, room);
        return room;
    }

    // The scales of the tile's group `i`.
    void load_scales(const CodeGroup& g, int i, TileScales& to) const {
        const std::byte* scales = g.page + g.index * kGroupKeys;
        decode_scales(layout_.k_bits, scales + hot::k_scales_offset(layout_),
                      to.k_scale + i * kGroupKeys);
        decode_scales(layout_.v_bits, scales + hot::v_scales_offset(layout_),
                      to.v_scale + i * kGroupKeys);
    }
    // Of a tile of nothing but codes.
    void set_offsets(TileScales& to) const {
        for (int i = 0; i < kKeyTileTokens; i += V::kLanes) {
            V::store(to.k_minus_offset + i, V::set1(-code_offset(layout_.k_bits)));
            V::store(to.v_offset + i, V::set1(code_offset(layout_.v_bits)));
        }
        to.has_excess = !hot::is_lloyd(layout_.v_bits);
    }

    // Lines of groups, K's first, for fetching them a few at a time: the share of dimensions
    // [d, d + dims) of K, ...
    [[gnu::always_inline]] void fetch_k(const CodeGroup* groups, int n, int d, int dims) const {
        const uint32_t begin = static_cast<uint32_t>(d) * k_step_ >> 16;
        const uint32_t end = static_cast<uint32_t>(d + dims) * k_step_ >> 16;
        for (uint32_t i = begin; i < end; ++i)
            for (int g = 0; g < n; ++g) fetch(groups[g], i);
    }
    // ... of `dims` dimensions of V from d on, at `n` of 16 keys, ...
    [[gnu::always_inline]] void fetch_v(const CodeGroup& g, int key, int n, int d, int dims) const {
        const auto unit = static_cast<uint32_t>(d + key * dims / kGroupKeys);
        const auto units = static_cast<uint32_t>(n * dims / kGroupKeys);
        const uint32_t end = n_k_lines_ + ((unit + units) * v_step_ >> 16);
        for (uint32_t i = n_k_lines_ + (unit * v_step_ >> 16); i < end; ++i) fetch(g, i);
    }
    // ... or all.
    void fetch_all(const CodeGroup& g) const {
        for (uint32_t i = 0; i < n_lines_; ++i) fetch(g, i);
    }

 private:
    static constexpr uint32_t kLine = 64;
    struct Line {
        uint32_t offset;  // of a page's first group
        uint32_t stride;  // to its next
    };

    template <int kBits, int kPlane>
    const uint8_t* plane(const std::byte* side, uint32_t group) const {
        constexpr size_t kRowBytes = 2 * hot::planes_of(kBits).width[kPlane];
        return reinterpret_cast<const uint8_t*>(side) + hot::plane_offset(layout_, kBits, kPlane) +
               group * layout_.head_dim * kRowBytes;
    }

    uint32_t add_side_lines(uint32_t n, size_t side, int bits, size_t scales) {
        lines_[n++] = {static_cast<uint32_t>(scales), kGroupKeys};
        const hot::Planes planes = hot::planes_of(bits);
        for (int p = 0; p < planes.count; ++p) {
            const uint32_t bytes = 2 * static_cast<uint32_t>(planes.width[p]) * layout_.head_dim;
            const auto first = static_cast<uint32_t>(side + hot::plane_offset(layout_, bits, p));
            for (uint32_t at = 0; at < bytes; at += kLine) lines_[n++] = {first + at, bytes};
        }
        return n;
    }

    [[gnu::always_inline]] void fetch(const CodeGroup& g, uint32_t line) const {
        prefetch_l2(g.page + lines_[line].offset + g.index * lines_[line].stride);
    }

    static void decode_scales(int bits, const std::byte* from, float* to) {
        const typename V::template Table<16> mantissas{hot::kSixteenth};
        for (int i = 0; i < kGroupKeys; i += V::kLanes) {
            const auto u = V::load_u8(reinterpret_cast<const uint8_t*>(from) + i);
            V::store(to + i, V::sixteenths(u, mantissas.look_up(u), hot::octaves(bits)));
        }
    }

    const hot::Shape layout_;
    uint32_t n_k_lines_ = 0;
    uint32_t n_lines_ = 0;
    uint32_t k_step_ = 0;  // lines a dimension, in 65536ths
    uint32_t v_step_ = 0;
    Line lines_[2 * (16 * 256 / kLine + 3)];
};

}  // namespace quire::kernels::generic
