// The oracle of fp4; README.md says the same in words.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "codec/fp4/fp4.h"
#include "codec/fp8/one.h"

namespace quire::codec::fp4 {
namespace {

constexpr uint32_t kMaxBlock = 32;
using Codes = std::array<uint8_t, kMaxBlock>;

uint8_t e2m1_code(float x, float inverse) {
    const float magnitude = std::fabs(x * inverse);
    int index = 0;
    float least = magnitude;
    for (int i = 1; i < 8; ++i) {
        const float distance = std::fabs(std::min(magnitude, kLevels[7]) - kLevels[i]);
        if (distance < least || (distance == least && i % 2 == 0)) {
            least = distance;
            index = i;
        }
    }
    if (std::isnan(magnitude)) index = 0;
    return static_cast<uint8_t>(index | (std::signbit(x) ? 8 : 0));
}

float e2m1_value(uint8_t code) {
    return (code & 8) != 0 ? -kLevels[code & 7] : kLevels[code & 7];
}

struct Coded {
    uint8_t scale = 0;
    Codes codes{};
};

float largest_finite(const float* x, uint32_t n) {
    float top = 0;
    for (uint32_t i = 0; i < n; ++i)
        if (std::isfinite(x[i])) top = std::max(top, std::fabs(x[i]));
    return top;
}

Coded with_step(const float* x, uint32_t n, uint8_t scale, float inverse) {
    Coded coded{scale};
    for (uint32_t i = 0; i < n && inverse != 0; ++i) coded.codes[i] = e2m1_code(x[i], inverse);
    return coded;
}

float squared_error(const float* x, const Coded& coded, float step) {
    std::array<float, 16> lanes;
    for (int i = 0; i < 16; ++i) {
        const float error = e2m1_value(coded.codes[i]) * step - x[i];
        lanes[i] = error * error;
    }
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
    return lanes[0];
}

Coded encode_block(Kind kind, const float* x, float global) {
    const float top = largest_finite(x, block_of(kind));
    if (kind == Kind::mxfp4) {
        const uint32_t scale = mx_scale(std::bit_cast<uint32_t>(top));
        return with_step(x, 32, static_cast<uint8_t>(scale), mx_inverse(scale));
    }
    Coded best;
    float least = 0;
    for (const float part : {kSixth, kQuarter}) {
        const uint8_t scale = fp8::code_of(fp8::kE4m3, top * part * (1.0f / global));
        const float step = fp8::value_of(fp8::kE4m3, scale) * global;
        const Coded coded = with_step(x, 16, scale, step == 0 ? 0 : 1.0f / step);
        if (part == kSixth) best = coded;
        if (kind == Kind::nvfp4) break;
        const float error = squared_error(x, coded, step);
        if (part != kSixth && error < least) best = coded;
        least = error;
    }
    return best;
}

float step_of(Kind kind, uint8_t scale, float global) {
    if (kind == Kind::mxfp4) return mx_step(scale);
    return fp8::value_of(fp8::kE4m3, scale) * global;
}

uint32_t encode_side(const EncodePage& job, const Side& side, const float* in, size_t stride) {
    if (in == nullptr) return 0;
    const Geometry& g = job.geometry;
    const Kind kind = kind_of(job.spec);
    uint32_t not_finite = 0;
    for (uint32_t token = job.first; token < job.last; ++token) {
        const float* row = in + token * stride;
        not_finite += !std::all_of(row, row + g.head_dim, [](float x) { return std::isfinite(x); });
        for (uint32_t block = 0; block < g.head_dim / block_of(kind); ++block) {
            const uint32_t first = block * block_of(kind);
            const Coded coded = encode_block(kind, row + first, side.global);
            job.page[scale_at(side, kind, g, token, block)] = std::byte{coded.scale};
            for (uint32_t i = 0; i < block_of(kind); i += 2)
                job.page[codes_at(side, g, token) + (first + i) / 2] =
                    static_cast<std::byte>(coded.codes[i] | coded.codes[i + 1] << 4);
        }
    }
    return not_finite;
}

void decode_side(const DecodePage& job, const Side& side, float* out, size_t stride) {
    if (out == nullptr) return;
    const Geometry& g = job.geometry;
    const Kind kind = kind_of(job.spec);
    for (uint32_t token = job.first; token < job.last; ++token)
        for (uint32_t d = 0; d < g.head_dim; ++d) {
            const size_t at = scale_at(side, kind, g, token, d / block_of(kind));
            const auto two = static_cast<uint8_t>(job.page[codes_at(side, g, token) + d / 2]);
            const auto code = static_cast<uint8_t>(d % 2 == 0 ? two & 15 : two >> 4);
            out[token * stride + d] =
                e2m1_value(code) * step_of(kind, static_cast<uint8_t>(job.page[at]), side.global);
        }
}

}  // namespace

uint32_t ref_encode(const EncodePage& job) {
    const Kind kind = kind_of(job.spec);
    const Geometry& g = job.geometry;
    return encode_side(job, k_side(kind, g, job.sidecar), job.k, job.k_stride) +
           encode_side(job, v_side(kind, g, job.sidecar), job.v, job.v_stride);
}

void ref_decode(const DecodePage& job) {
    const Kind kind = kind_of(job.spec);
    const Geometry& g = job.geometry;
    decode_side(job, k_side(kind, g, job.sidecar), job.k, job.k_stride);
    decode_side(job, v_side(kind, g, job.sidecar), job.v, job.v_stride);
}

}  // namespace quire::codec::fp4
