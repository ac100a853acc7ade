// The oracle of the hot family; README.md says the same in words.
#include <algorithm>
#include <array>
#include <cmath>

#include "codec/hot/hot.h"
#include "codec/hot/rotate.h"
#include "codec/hot/scale.h"

namespace quire::codec::hot {
namespace {

using Row = std::array<float, kMaxHeadDim>;
using Codes = std::array<uint8_t, kMaxHeadDim>;

// Sixteen running sums, number i going to sum i % 16, folded 8 + 8, 4 + 4, 2 + 2, 1 + 1.
class Sum {
 public:
    void add_square(uint32_t i, float x) {
        lanes_[i % kLanes] = std::fma(x, x, lanes_[i % kLanes]);
    }
    float total() const {
        std::array<float, kLanes> s = lanes_;
        for (uint32_t half = kLanes / 2; half > 0; half /= 2)
            for (uint32_t i = 0; i < half; ++i) s[i] = s[i] + s[i + half];
        return s[0];
    }

 private:
    std::array<float, kLanes> lanes_{};
};

struct Coded {
    uint8_t code;
    float level;
};

// `z` is the number over its scale.
Coded nearest(int bits, float z) {
    const int half = magnitudes(bits);
    if (!is_lloyd(bits)) {
        const float low = static_cast<float>(-half), high = static_cast<float>(half - 1);
        const float level = std::nearbyint(std::min(std::max(z, low), high));
        return {static_cast<uint8_t>(static_cast<int>(level) + half), level};
    }
    int i = 0;
    while (i < half - 1 && std::fabs(z) >= lloyd_thresholds(bits)[i]) ++i;
    const float level = lloyd_levels(bits)[i];
    if (std::signbit(z)) return {static_cast<uint8_t>(half - 1 - i), -level};
    return {static_cast<uint8_t>(half + i), level};
}

float level_of(int bits, uint8_t code) {
    const int half = magnitudes(bits);
    if (!is_lloyd(bits)) return static_cast<float>(code - half);
    return code < half ? -lloyd_levels(bits)[half - 1 - code] : lloyd_levels(bits)[code - half];
}

float squared_error(int bits, const Row& x, uint32_t head_dim, uint32_t u) {
    const float scale = scale_of(bits, u), inverse = inverse_scale_of(bits, u);
    Sum sum;
    for (uint32_t i = 0; i < head_dim; ++i)
        sum.add_square(i, std::fma(-nearest(bits, x[i] * inverse).level, scale, x[i]));
    return sum.total();
}

uint32_t best_scale(int bits, const Row& x, uint32_t head_dim, float largest) {
    float amplitude = largest * (1.0f / reach(bits));
    if (bits == 2) {
        Sum squares;
        if (largest < kHuge)
            for (uint32_t i = 0; i < head_dim; ++i) squares.add_square(i, x[i]);
        amplitude =
            largest < kHuge ? std::sqrt(squares.total() / static_cast<float>(head_dim)) : largest;
    }
    const int anchor = scale_at_least(bits, amplitude);
    const Search search = search_of(bits);
    uint32_t best = clamp_scale(anchor + search.highest);
    float least = squared_error(bits, x, head_dim, best);
    for (int step = search.highest - 1; step >= search.lowest; --step) {
        const uint32_t u = clamp_scale(anchor + step);
        const float error = squared_error(bits, x, head_dim, u);
        if (error < least) {
            least = error;
            best = u;
        }
    }
    return best;
}

// Fills codes and returns the scale; `finite` becomes false when the row is not.
uint8_t encode_row(int bits, const float* in, const float* mean, uint32_t head_dim, Codes& codes,
                   bool& finite) {
    codes.fill(0);
    Row x;
    for (uint32_t i = 0; i < head_dim; ++i) x[i] = mean != nullptr ? in[i] - mean[i] : in[i];
    ref_rotate(x.data(), head_dim);
    float largest = 0;
    finite = true;
    for (uint32_t i = 0; i < head_dim; ++i) {
        finite = finite && std::isfinite(x[i]);
        largest = std::max(largest, std::fabs(x[i]));
    }
    if (!finite || largest <= zero_below(bits)) return 0;
    const uint32_t u = best_scale(bits, x, head_dim, largest);
    for (uint32_t i = 0; i < head_dim; ++i)
        codes[i] = nearest(bits, x[i] * inverse_scale_of(bits, u)).code;
    return static_cast<uint8_t>(u);
}

void put_code(std::byte* side, const Shape& s, int bits, Place place, uint8_t code) {
    for (int p = 0; p < planes_of(bits).count; ++p) {
        const int width = planes_of(bits).width[p];
        const int mask = (1 << width) - 1, at = bit_in_byte(width, place);
        std::byte& byte = side[plane_offset(s, bits, p) + byte_in_plane(width, place)];
        const int value = code >> plane_shift(bits, p) & mask;
        byte = (byte & ~static_cast<std::byte>(mask << at)) | static_cast<std::byte>(value << at);
    }
}

uint8_t get_code(const std::byte* side, const Shape& s, int bits, Place place) {
    int code = 0;
    for (int p = 0; p < planes_of(bits).count; ++p) {
        const int width = planes_of(bits).width[p];
        const auto byte =
            static_cast<uint8_t>(side[plane_offset(s, bits, p) + byte_in_plane(width, place)]);
        const int value = byte >> bit_in_byte(width, place) & ((1 << width) - 1);
        code |= value << plane_shift(bits, p);
    }
    return static_cast<uint8_t>(code);
}

// One side of a page: where its parts lie, and which numbering its codes have.
struct Side {
    int bits;
    size_t codes;
    size_t scales;
    Place (*place)(const Shape&, uint32_t token, uint32_t dim);
};
Side k_side(const Shape& s) {
    return {s.k_bits, k_offset(s), k_scales_offset(s),
            [](const Shape& g, uint32_t t, uint32_t d) { return k_place(g, t, d); }};
}
Side v_side(const Shape& s) {
    return {s.v_bits, v_offset(s), v_scales_offset(s),
            [](const Shape& g, uint32_t t, uint32_t d) { return v_place(g, t, d); }};
}

uint32_t encode_side(const EncodePage& job, const Side& side, const float* in, size_t stride,
                     const float* mean) {
    if (in == nullptr) return 0;
    const Shape s = shape_of(job.spec, job.geometry);
    uint32_t not_finite = 0;
    for (uint32_t token = job.first; token < job.last; ++token) {
        Codes codes;
        bool finite = true;
        const uint8_t u =
            encode_row(side.bits, in + token * stride, mean, s.head_dim, codes, finite);
        not_finite += !finite;
        for (uint32_t d = 0; d < s.head_dim; ++d)
            put_code(job.page + side.codes, s, side.bits, side.place(s, token, d), codes[d]);
        job.page[side.scales + token] = static_cast<std::byte>(u);
    }
    return not_finite;
}

void decode_side(const DecodePage& job, const Side& side, float* out, size_t stride,
                 const float* mean) {
    if (out == nullptr) return;
    const Shape s = shape_of(job.spec, job.geometry);
    for (uint32_t token = job.first; token < job.last; ++token) {
        const float scale =
            decode_scale(side.bits, static_cast<uint8_t>(job.page[side.scales + token]));
        Row x;
        for (uint32_t d = 0; d < s.head_dim; ++d)
            x[d] = level_of(side.bits, get_code(job.page + side.codes, s, side.bits,
                                                side.place(s, token, d))) *
                   scale;
        if (job.original_space) {
            ref_rotate(x.data(), s.head_dim);
            for (uint32_t d = 0; mean != nullptr && d < s.head_dim; ++d) x[d] = x[d] + mean[d];
        }
        std::copy_n(x.begin(), s.head_dim, out + token * stride);
    }
}

}  // namespace

uint32_t ref_encode(const EncodePage& job) {
    const Shape s = shape_of(job.spec, job.geometry);
    return encode_side(job, k_side(s), job.k, job.k_stride, job.sidecar.k_mean) +
           encode_side(job, v_side(s), job.v, job.v_stride, job.sidecar.v_mean);
}

void ref_decode(const DecodePage& job) {
    const Shape s = shape_of(job.spec, job.geometry);
    decode_side(job, k_side(s), job.k, job.k_stride, job.sidecar.k_mean);
    decode_side(job, v_side(s), job.v, job.v_stride, job.sidecar.v_mean);
}

}  // namespace quire::codec::hot
