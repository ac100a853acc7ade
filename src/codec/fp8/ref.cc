// The oracle of fp8: rounding by looking for the nearest of the 128 magnitudes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "codec/fp8/fp8.h"
#include "codec/fp8/one.h"
#include "core/half.h"

namespace quire::codec::fp8 {

float value_of(const Format& f, uint8_t code) {
    const int magnitude = code & 0x7f, mantissa_bits = 23 - f.shift;
    const int exponent = magnitude >> mantissa_bits;
    const int mantissa = magnitude & ((1 << mantissa_bits) - 1);
    float value = 0;
    if (magnitude >= f.infinity)
        value = f.infinity == kNan || magnitude > f.infinity
                    ? std::numeric_limits<float>::quiet_NaN()
                    : std::numeric_limits<float>::infinity();
    else if (exponent == 0)
        value = static_cast<float>(mantissa) * f.subnormal_step;
    else
        value = std::ldexp(static_cast<float>((1 << mantissa_bits) + mantissa) * f.subnormal_step,
                           exponent - 1);
    return std::copysign(value, (code & 0x80) != 0 ? -1.0f : 1.0f);
}

uint8_t code_of(const Format& f, float x) {
    const uint8_t sign = std::signbit(x) ? 0x80 : 0;
    if (std::isnan(x)) return sign | kNan;
    const double magnitude = std::min(std::fabs(x), f.largest);
    int best = 0;
    double least = magnitude;
    for (int code = 1; code < f.infinity; ++code) {
        const double distance =
            std::fabs(magnitude - double{value_of(f, static_cast<uint8_t>(code))});
        if (distance < least || (distance == least && code % 2 == 0)) {
            least = distance;
            best = code;
        }
    }
    return static_cast<uint8_t>(sign | best);
}

namespace {

// One side of a page.
struct Side {
    size_t (*at)(const Geometry&, uint32_t token, uint32_t dim);
    size_t (*scale_at)(const Geometry&, uint32_t token);
    float given_scale;
};
Side k_side(const HeadSidecar& sidecar) {
    return {[](const Geometry& g, uint32_t t, uint32_t d) { return k_at(g, t, d); },
            [](const Geometry& g, uint32_t t) { return k_scale_at(g, t); }, sidecar.k_scale};
}
Side v_side(const HeadSidecar& sidecar) {
    return {[](const Geometry& g, uint32_t t, uint32_t d) { return v_at(g, t, d); },
            [](const Geometry& g, uint32_t t) { return v_scale_at(g, t); }, sidecar.v_scale};
}

// The f16 scale of a row, from its largest finite number.
uint16_t row_scale(const Format& f, const float* row, uint32_t head_dim) {
    float largest = 0;
    for (uint32_t i = 0; i < head_dim; ++i)
        if (std::isfinite(row[i])) largest = std::max(largest, std::fabs(row[i]));
    const float scale = std::min(largest / f.largest, kLargestScale);
    return f32_to_f16(std::max(scale, kSmallestScale));
}

float scale_of(const CodecSpec& spec, const Geometry& g, const Side& side, const std::byte* page,
               uint32_t token) {
    if (scaling_of(spec) == Scaling::one) return 1.0f;
    if (scaling_of(spec) == Scaling::head) return side.given_scale;
    uint16_t stored;
    std::memcpy(&stored, page + side.scale_at(g, token), sizeof(stored));
    return f16_to_f32(stored);
}

uint32_t encode_side(const EncodePage& job, const Side& side, const float* in, size_t stride) {
    if (in == nullptr) return 0;
    const Geometry& g = job.geometry;
    const Format& f = format_of(job.spec);
    uint32_t not_finite = 0;
    for (uint32_t token = job.first; token < job.last; ++token) {
        const float* row = in + token * stride;
        if (scaling_of(job.spec) == Scaling::token) {
            const uint16_t scale = row_scale(f, row, g.head_dim);
            std::memcpy(job.page + side.scale_at(g, token), &scale, sizeof(scale));
        }
        const float scale = scale_of(job.spec, g, side, job.page, token);
        bool finite = true;
        for (uint32_t d = 0; d < g.head_dim; ++d) {
            finite = finite && std::isfinite(row[d]);
            job.page[side.at(g, token, d)] = static_cast<std::byte>(code_of(f, row[d] / scale));
        }
        not_finite += !finite;
    }
    return not_finite;
}

void decode_side(const DecodePage& job, const Side& side, float* out, size_t stride) {
    if (out == nullptr) return;
    const Geometry& g = job.geometry;
    for (uint32_t token = job.first; token < job.last; ++token) {
        const float scale = scale_of(job.spec, g, side, job.page, token);
        for (uint32_t d = 0; d < g.head_dim; ++d)
            out[token * stride + d] =
                value_of(format_of(job.spec),
                         static_cast<uint8_t>(job.page[side.at(g, token, d)])) *
                scale;
    }
}

}  // namespace

uint32_t ref_encode(const EncodePage& job) {
    return encode_side(job, k_side(job.sidecar), job.k, job.k_stride) +
           encode_side(job, v_side(job.sidecar), job.v, job.v_stride);
}

void ref_decode(const DecodePage& job) {
    decode_side(job, k_side(job.sidecar), job.k, job.k_stride);
    decode_side(job, v_side(job.sidecar), job.v, job.v_stride);
}

}  // namespace quire::codec::fp8
