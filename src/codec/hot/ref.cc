// The oracle of the hot family; README.md says the same in words.
#include <algorithm>
#include <array>
#include <cmath>

#include "codec/hot/hot.h"
#include "codec/hot/ref_side.h"
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

// Fills codes of a rotated row and returns the scale; 0 when the row is not finite.
uint8_t quantise_row(int bits, const Row& x, uint32_t head_dim, Codes& codes, bool& finite) {
    codes.fill(0);
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

// The numbers of one side, less its mean, a token at a time.
uint32_t encode_side(const EncodePage& job, const RefSide& side, const float* in, size_t stride,
                     const float* mean) {
    if (in == nullptr) return 0;
    const Shape s = shape_of(job.spec, job.geometry);
    uint32_t not_finite = 0;
    for (uint32_t token = job.first; token < job.last; ++token) {
        Row x;
        for (uint32_t d = 0; d < s.head_dim; ++d)
            x[d] = mean != nullptr ? in[token * stride + d] - mean[d] : in[token * stride + d];
        not_finite += !ref_encode_token(s, side, token, x.data(), job.page);
    }
    return not_finite;
}

void decode_side(const DecodePage& job, const RefSide& side, float* out, size_t stride,
                 const float* mean) {
    if (out == nullptr) return;
    const Shape s = shape_of(job.spec, job.geometry);
    for (uint32_t token = job.first; token < job.last; ++token) {
        float* x = out + token * stride;
        ref_decode_token(s, side, token, job.page, job.original_space, x);
        for (uint32_t d = 0; job.original_space && mean != nullptr && d < s.head_dim; ++d)
            x[d] = x[d] + mean[d];
    }
}

}  // namespace

RefSide ref_k_side(const Shape& s) {
    return {s.k_bits, k_offset(s), k_scales_offset(s),
            [](const Shape& g, uint32_t t, uint32_t d) { return k_place(g, t, d); }};
}
RefSide ref_v_side(const Shape& s) {
    return {s.v_bits, v_offset(s), v_scales_offset(s),
            [](const Shape& g, uint32_t t, uint32_t d) { return v_place(g, t, d); }};
}

bool ref_encode_token(const Shape& s, const RefSide& side, uint32_t token, const float* row,
                      std::byte* page) {
    Row x;
    std::copy_n(row, s.head_dim, x.begin());
    ref_rotate(x.data(), s.head_dim);
    Codes codes;
    bool finite = true;
    const uint8_t u = quantise_row(side.bits, x, s.head_dim, codes, finite);
    for (uint32_t d = 0; d < s.head_dim; ++d)
        put_code(page + side.codes, s, side.bits, side.place(s, token, d), codes[d]);
    page[side.scales + token] = static_cast<std::byte>(u);
    return finite;
}

void ref_decode_token(const Shape& s, const RefSide& side, uint32_t token, const std::byte* page,
                      bool rotate_back, float* row) {
    const float scale = decode_scale(side.bits, static_cast<uint8_t>(page[side.scales + token]));
    for (uint32_t d = 0; d < s.head_dim; ++d)
        row[d] = level_of(side.bits,
                          get_code(page + side.codes, s, side.bits, side.place(s, token, d))) *
                 scale;
    if (rotate_back) ref_rotate(row, s.head_dim);
}

uint32_t ref_encode(const EncodePage& job) {
    const Shape s = shape_of(job.spec, job.geometry);
    return encode_side(job, ref_k_side(s), job.k, job.k_stride, job.sidecar.k_mean) +
           encode_side(job, ref_v_side(s), job.v, job.v_stride, job.sidecar.v_mean);
}

void ref_decode(const DecodePage& job) {
    const Shape s = shape_of(job.spec, job.geometry);
    decode_side(job, ref_k_side(s), job.k, job.k_stride, job.sidecar.k_mean);
    decode_side(job, ref_v_side(s), job.v, job.v_stride, job.sidecar.v_mean);
}

}  // namespace quire::codec::hot
