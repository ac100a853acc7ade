// Rows of many kinds and pages with guards, for the tests of codecs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "codec/codec_table.h"

namespace quire::codec::testing {

// What the numbers of a page are like. Every codec must give a defined result for all of them.
enum class Kind {
    normal,
    heavy_tails,
    outlier_channels,
    constant_rows,
    zeros,
    minus_zeros,
    tiny,
    subnormal,
    huge,
    mixed_magnitudes,  // rows from 1e-38 to 1e38
    not_finite,        // some rows with a NaN, an infinity or both
};
inline constexpr Kind kKinds[] = {Kind::outlier_channels,
                                  Kind::mixed_magnitudes,
                                  Kind::not_finite,
                                  Kind::normal,
                                  Kind::heavy_tails,
                                  Kind::constant_rows,
                                  Kind::zeros,
                                  Kind::minus_zeros,
                                  Kind::tiny,
                                  Kind::subnormal,
                                  Kind::huge};

inline float draw(Kind kind, uint32_t token, uint32_t dim, std::mt19937_64& rng) {
    std::normal_distribution<float> normal;
    const float x = normal(rng);
    switch (kind) {
        case Kind::normal:
            return x;
        case Kind::heavy_tails:
            return x / std::sqrt(1e-3f + std::fabs(normal(rng)));
        case Kind::outlier_channels:
            return dim % 37 == 5 ? 60 + 4 * x : x;
        case Kind::constant_rows:
            return static_cast<float>(token) - 7.25f;
        case Kind::zeros:
            return 0.0f;
        case Kind::minus_zeros:
            return -0.0f;
        case Kind::tiny:
            return x * 1e-6f;
        case Kind::subnormal:
            return x * 1e-41f;
        case Kind::huge:
            return x * 1e37f;
        case Kind::mixed_magnitudes:
            return std::ldexp(x, static_cast<int>(token * 16 % 250) - 126);
        case Kind::not_finite:
            if (token % 3 == 1 && dim == 11) return std::numeric_limits<float>::quiet_NaN();
            if (token % 4 == 2 && dim == 7) return -std::numeric_limits<float>::infinity();
            return x;
    }
    return x;
}

// A matrix, a reflection of scaled dimensions, with its inverse, and an order of dimensions.
struct Map {
    Map() = default;
    Map(uint32_t n, std::mt19937_64& rng) {
        std::vector<float> u(n);
        double squares = 0;
        for (float& x : u) {
            x = draw(Kind::normal, 0, 0, rng);
            squares += double{x} * double{x};
        }
        for (uint32_t a = 0; a < n; ++a)
            for (uint32_t b = 0; b < n; ++b) {
                const double h = (a == b) - 2 * double{u[a]} * double{u[b]} / squares;
                forward.push_back(static_cast<float>(h * scale(a)));
                back.push_back(static_cast<float>(h / scale(b)));
            }
        order.resize(n);
        std::iota(order.begin(), order.end(), uint16_t{0});
        std::ranges::shuffle(order, rng);
    }
    RowMap map() const { return {forward.data(), back.data(), order.data()}; }

    std::vector<float> forward, back;
    std::vector<uint16_t> order;

 private:
    static double scale(uint32_t dim) { return std::exp2(0.5 * (dim % 5) - 1); }
};

// K and V of a page, rows `stride` apart, means and maps.
struct Rows {
    Rows(const Geometry& geometry, Kind kind, uint64_t seed, size_t row_stride = 0)
        : g(geometry), stride(row_stride == 0 ? geometry.head_dim : row_stride) {
        std::mt19937_64 rng(seed);
        for (std::vector<float>* side : {&k, &v}) {
            side->assign(stride * g.block_tokens, std::numeric_limits<float>::quiet_NaN());
            for (uint32_t t = 0; t < g.block_tokens; ++t)
                for (uint32_t d = 0; d < g.head_dim; ++d)
                    (*side)[t * stride + d] = draw(kind, t, d, rng);
        }
        for (std::vector<float>* mean : {&k_mean, &v_mean})
            for (uint32_t d = 0; d < g.head_dim; ++d)
                mean->push_back(draw(Kind::normal, 0, d, rng));
        for (Map* map : {&k_map, &v_map}) *map = Map(g.head_dim, rng);
    }

    Geometry g;
    size_t stride;
    std::vector<float> k, v, k_mean, v_mean;
    Map k_map, v_map;
};

// Bytes with guards before and after, filled with `fill`.
class Page {
 public:
    Page(const CodecSpec& spec, const Geometry& g, uint8_t fill)
        : size_(page_bytes(spec, g)), bytes_(size_ + 3 * kGuard, std::byte{0xa5}) {
        const auto address = reinterpret_cast<uintptr_t>(bytes_.data() + kGuard);
        first_ = kGuard + (kPageAlign - address % kPageAlign) % kPageAlign;
        std::memset(data(), fill, size_);
    }

    std::byte* data() { return bytes_.data() + first_; }
    const std::byte* data() const { return bytes_.data() + first_; }
    size_t size() const { return size_; }
    bool operator==(const Page& other) const {
        return size_ == other.size_ && std::memcmp(data(), other.data(), size_) == 0;
    }
    // Whether nobody wrote outside.
    bool guards_hold() const {
        for (size_t i = 0; i < bytes_.size(); ++i)
            if ((i < first_ || i >= first_ + size_) && bytes_[i] != std::byte{0xa5}) return false;
        return true;
    }

 private:
    static constexpr size_t kGuard = 64;
    size_t size_;
    size_t first_;
    std::vector<std::byte> bytes_;
};

inline HeadSidecar sidecar_of(const Rows& rows, bool with_means) {
    HeadSidecar sidecar;
    if (with_means)
        sidecar = {.k_mean = rows.k_mean.data(),
                   .v_mean = rows.v_mean.data(),
                   .k_map = rows.k_map.map(),
                   .v_map = rows.v_map.map()};
    sidecar.k_scale = 0.02f;
    sidecar.v_scale = 0.013f;
    return sidecar;
}

inline uint32_t encode(const PageCodecOps& ops, const CodecSpec& spec, const Rows& rows, Page& page,
                       bool with_means, uint32_t first, uint32_t last) {
    return ops.encode({.spec = spec,
                       .geometry = rows.g,
                       .sidecar = sidecar_of(rows, with_means),
                       .k = rows.k.data(),
                       .v = rows.v.data(),
                       .k_stride = rows.stride,
                       .v_stride = rows.stride,
                       .first = first,
                       .last = last,
                       .page = page.data()});
}
inline uint32_t encode(const PageCodecOps& ops, const CodecSpec& spec, const Rows& rows, Page& page,
                       bool with_means = false) {
    return encode(ops, spec, rows, page, with_means, 0, rows.g.block_tokens);
}

// What decoding gives; numbers that were not decoded are `untouched`.
struct Decoded {
    std::vector<float> k, v;
    // Bit for bit, but that any NaN equals any other.
    bool operator==(const Decoded& other) const {
        const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
            if (a.size() != b.size()) return false;
            for (size_t i = 0; i < a.size(); ++i)
                if (!(std::isnan(a[i]) && std::isnan(b[i])) &&
                    std::memcmp(&a[i], &b[i], sizeof(float)) != 0)
                    return false;
            return true;
        };
        return same(k, other.k) && same(v, other.v);
    }
};
inline constexpr float kUntouched = -12345.5f;

inline Decoded decode(const PageCodecOps& ops, const CodecSpec& spec, const Rows& rows,
                      const Page& page, bool original_space, bool with_means, uint32_t first,
                      uint32_t last) {
    const size_t numbers = size_t{rows.g.block_tokens} * rows.g.head_dim;
    Decoded out{std::vector<float>(numbers, kUntouched), std::vector<float>(numbers, kUntouched)};
    ops.decode({.spec = spec,
                .geometry = rows.g,
                .sidecar = sidecar_of(rows, with_means),
                .page = page.data(),
                .original_space = original_space,
                .k = out.k.data(),
                .v = out.v.data(),
                .k_stride = rows.g.head_dim,
                .v_stride = rows.g.head_dim,
                .first = first,
                .last = last});
    return out;
}
inline Decoded decode(const PageCodecOps& ops, const CodecSpec& spec, const Rows& rows,
                      const Page& page, bool original_space = true, bool with_means = false) {
    return decode(ops, spec, rows, page, original_space, with_means, 0, rows.g.block_tokens);
}

// Squared error over squared numbers; `out` rows are head_dim apart.
inline double relative_error(const Rows& rows, const std::vector<float>& in,
                             const std::vector<float>& out) {
    double error = 0, energy = 0;
    for (uint32_t t = 0; t < rows.g.block_tokens; ++t)
        for (uint32_t d = 0; d < rows.g.head_dim; ++d) {
            const double x = in[t * rows.stride + d], y = out[size_t{t} * rows.g.head_dim + d];
            error += (x - y) * (x - y);
            energy += x * x;
        }
    return error / energy;
}

inline std::vector<CodecSpec> every_codec() {
    std::vector<CodecSpec> all;
    for (const CodecRow& row : codec_table())
        for (const CodecSpec& spec : row.specs()) all.push_back(spec);
    return all;
}

}  // namespace quire::codec::testing
