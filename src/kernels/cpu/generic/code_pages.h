// Compressed pages of the hot family: where sixteen keys lie, their scales, their codes as bytes.
// Layout and levels are those of codec/hot.
#pragma once

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

// Sixteen keys of one page.
struct CodeGroup {
    const std::byte* page = nullptr;
    uint32_t index = 0;  // of the group in its block
};

// One shape's pages.
template <class V>
class CodePages {
 public:
    explicit CodePages(const AttnShape& shape)
        : layout_{shape.codes.k_bits, shape.codes.v_bits, static_cast<uint32_t>(shape.head_dim),
                  static_cast<uint32_t>(shape.block_tokens)},
          near_(hot::page_bytes(layout_) * kKeyTileTokens / layout_.tokens <= kNearTileBytes) {
        n_k_lines_ = add_side_lines(0, hot::k_offset(layout_), layout_.k_bits,
                                    hot::k_scales_offset(layout_));
        n_lines_ = add_side_lines(n_k_lines_, hot::v_offset(layout_), layout_.v_bits,
                                  hot::v_scales_offset(layout_));
        const uint32_t units = layout_.head_dim / 16;
        k_step_ = ((n_k_lines_ << 16) + units - 1) / units;
        v_step_ = (((n_lines_ - n_k_lines_) << 16) + 4 * units - 1) / (4 * units);
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
        hot::generic::unpack_group<V, kBits>(layout_, g.page + hot::k_offset(layout_), g.index,
                                             room);
        return room;
    }
    template <int kBits>
    const uint8_t* v_bytes(const CodeGroup& g, uint8_t* room) const {
        if constexpr (kBits == 8) return v_plane<8, 0>(g);
        hot::generic::unpack_group<V, kBits>(layout_, g.page + hot::v_offset(layout_), g.index,
                                             room);
        return room;
    }

    // The scales and offsets of the tile's group `i`.
    void load_scales(const CodeGroup& g, int i, TileScales& to) const {
        const int at = i * kGroupKeys;
        const std::byte* scales = g.page + g.index * kGroupKeys;
        decode_scales(layout_.k_bits, scales + hot::k_scales_offset(layout_), to.k_scale + at);
        decode_scales(layout_.v_bits, scales + hot::v_scales_offset(layout_), to.v_scale + at);
        fill(to.k_minus_offset + at, -code_offset(layout_.k_bits));
        fill(to.v_offset + at, code_offset(layout_.v_bits));
        to.has_excess = !hot::is_lloyd(layout_.v_bits);
    }

    // Lines of a group, K's first, for fetching them a few at a time: the share of dimensions
    // [d, d + 16) of K, ...
    void fetch_k(const CodeGroup& g, int d) const {
        const uint32_t unit = static_cast<uint32_t>(d) / 16;
        fetch(g, unit * k_step_ >> 16, (unit + 1) * k_step_ >> 16);
    }
    // ... and of keys [key, key + 4) and `dims` dimensions of V.
    void fetch_v(const CodeGroup& g, int key, int d, int dims) const {
        const auto unit = static_cast<uint32_t>(d / 16 * 4 + key / 4 * (dims / 16));
        fetch(g, n_k_lines_ + (unit * v_step_ >> 16),
              n_k_lines_ + ((unit + static_cast<uint32_t>(dims) / 16) * v_step_ >> 16));
    }
    void fetch_all(const CodeGroup& g) const { fetch(g, 0, n_lines_); }

 private:
    // Up to this many bytes of the next tile go into L1 beside what is in use.
    static constexpr size_t kNearTileBytes = 16384;
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

    void fetch(const CodeGroup& g, uint32_t begin, uint32_t end) const {
        for (uint32_t i = begin; i < end; ++i) {
            const std::byte* at = g.page + lines_[i].offset + g.index * lines_[i].stride;
            if (near_)
                V::prefetch(at);
            else
                V::prefetch_l2(at);
        }
    }

    static void fill(float* to, float x) {
        for (int i = 0; i < kGroupKeys; i += V::kLanes) V::store(to + i, V::set1(x));
    }

    static void decode_scales(int bits, const std::byte* from, float* to) {
        const typename V::template Table<16> mantissas{hot::kSixteenth};
        for (int i = 0; i < kGroupKeys; i += V::kLanes) {
            const auto u = V::load_u8(reinterpret_cast<const uint8_t*>(from) + i);
            V::store(to + i, V::sixteenths(u, mantissas.look_up(u), hot::octaves(bits)));
        }
    }

    const hot::Shape layout_;
    const bool near_;
    uint32_t n_k_lines_ = 0;
    uint32_t n_lines_ = 0;
    uint32_t k_step_ = 0;  // lines for each 16 dimensions, in 65536ths
    uint32_t v_step_ = 0;  // lines for each 16 dimensions of 4 keys
    Line lines_[2 * (16 * 256 / kLine + 3)];
};

}  // namespace quire::kernels::generic
