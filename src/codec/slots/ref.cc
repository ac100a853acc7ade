// The oracle of slots; README.md says the same in words.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "codec/fp8/one.h"
#include "codec/hot/rotate.h"
#include "codec/slots/slots.h"
#include "codec/slots/table.h"
#include "core/half.h"

namespace quire::codec::slots {
namespace {

using Row = std::array<float, kMaxHeadDim>;
using Slot = std::array<std::byte, kMaxSlotBytes>;

// Sixteen running sums, number i going to sum i % 16, folded 8 + 8, 4 + 4, 2 + 2, 1 + 1.
float sum_of_squares(const float* x, uint32_t n) {
    std::array<float, 16> lanes{};
    for (uint32_t i = 0; i < n; ++i) lanes[i % 16] = std::fma(x[i], x[i], lanes[i % 16]);
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) lanes[i] = lanes[i] + lanes[i + half];
    return lanes[0];
}

bool is_finite(const float* x, uint32_t n) {
    return std::all_of(x, x + n, [](float value) { return std::isfinite(value); });
}

// The smaller of the zeros among numbers of which none is negative: -0 where there is one.
float zero_of(const float* x, uint32_t n) {
    const bool sign = std::any_of(x, x + n, [](float value) { return std::signbit(value); });
    return sign ? -0.0f : 0.0f;
}

// Code `i` of `bits` bits at `codes`, which was zero.
void put(std::byte* codes, uint32_t bits, uint32_t i, uint32_t code) {
    for (uint32_t bit = 0; bit < bits; ++bit) {
        const uint32_t at = i * bits + bit;
        codes[at / 8] |= static_cast<std::byte>((code >> bit & 1) << at % 8);
    }
}
uint32_t get(const std::byte* codes, uint32_t bits, uint32_t i) {
    uint32_t code = 0;
    for (uint32_t bit = 0; bit < bits; ++bit) {
        const uint32_t at = i * bits + bit;
        code |= (static_cast<uint32_t>(codes[at / 8]) >> at % 8 & 1) << bit;
    }
    return code;
}

void put_half(std::byte* p, float x) {
    const uint16_t half = f32_to_f16(std::clamp(x, -kLargestHalf, kLargestHalf));
    std::memcpy(p, &half, sizeof(half));
}
float get_half(const std::byte* p) {
    uint16_t half;
    std::memcpy(&half, p, sizeof(half));
    return f16_to_f32(half);
}

// `to` was zero.
void encode_rotated_key(const Shape& s, const float* k, std::byte* to) {
    const float norm = std::sqrt(sum_of_squares(k, s.head_dim));
    if (!std::isfinite(norm)) return;
    Row y;
    for (uint32_t i = 0; i < s.head_dim; ++i) y[i] = k[i] / (norm + kNormFloor);
    hot::ref_rotate(y.data(), s.head_dim);
    const Table table = table_of(s.k_bits, s.head_dim);
    for (uint32_t i = 0; i < s.head_dim; ++i) {
        uint32_t code = 0;
        for (uint32_t m = 0; m + 1 < 1u << s.k_bits; ++m) code += y[i] >= table.midpoint[m];
        put(to, s.k_bits, i, code);
    }
    put_half(to + s.k_codes_bytes(), norm);
}

void encode_key(const Shape& s, const float* k, std::byte* to) {
    if (s.is_rotated()) return encode_rotated_key(s, k, to);
    for (uint32_t i = 0; i < s.head_dim; ++i) to[i] = std::byte{fp8::code_of(fp8::kE4m3, k[i])};
}

void encode_value(const Shape& s, const float* v, std::byte* to) {
    if (!is_finite(v, s.head_dim)) return;
    const float low = *std::min_element(v, v + s.head_dim);
    const float range = *std::max_element(v, v + s.head_dim) - low;
    if (!std::isfinite(range)) return;
    const float top = static_cast<float>((1 << s.v_bits) - 1);
    const float step = std::max(range / top, kSmallestStep);
    for (uint32_t i = 0; i < s.head_dim; ++i) {
        const float code = std::min((v[i] - low) / step + 0.5f, top);
        put(to, s.v_bits, i, static_cast<uint32_t>(code));
    }
    put_half(to + s.v_codes_bytes(), step);
    put_half(to + s.v_codes_bytes() + 2, low != 0 ? low : zero_of(v, s.head_dim));
}

void decode_key(const Shape& s, const std::byte* from, bool original_space, float* k) {
    if (!s.is_rotated()) {
        for (uint32_t i = 0; i < s.head_dim; ++i)
            k[i] = fp8::value_of(fp8::kE4m3, static_cast<uint8_t>(from[i]));
        return;
    }
    const Table table = table_of(s.k_bits, s.head_dim);
    for (uint32_t i = 0; i < s.head_dim; ++i) k[i] = table.level[get(from, s.k_bits, i)];
    const float inverse = 1.0f / std::sqrt(sum_of_squares(k, s.head_dim) + kSquaresFloor);
    const float norm = get_half(from + s.k_codes_bytes());
    for (uint32_t i = 0; i < s.head_dim; ++i) k[i] = norm * (k[i] * inverse);
    if (original_space) hot::ref_rotate(k, s.head_dim);
}

void decode_value(const Shape& s, const std::byte* from, float* v) {
    const float step = get_half(from + s.v_codes_bytes());
    const float low = get_half(from + s.v_codes_bytes() + 2);
    for (uint32_t i = 0; i < s.head_dim; ++i)
        v[i] = std::fma(static_cast<float>(get(from, s.v_bits, i)), step, low);
}

}  // namespace

uint32_t ref_encode(const EncodePage& job) {
    const Shape s = shape_of(job.spec, job.geometry);
    uint32_t not_finite = 0;
    for (uint32_t t = job.first; t < job.last; ++t) {
        Slot slot{};
        if (job.k != nullptr) {
            const float* k = job.k + t * job.k_stride;
            not_finite += !is_finite(k, s.head_dim);
            encode_key(s, k, slot.data());
            copy_in(s, slot.data(), 0, s.k_bytes(), t, job.page);
        }
        if (job.v != nullptr) {
            const float* v = job.v + t * job.v_stride;
            not_finite += !is_finite(v, s.head_dim);
            encode_value(s, v, slot.data() + s.k_bytes());
            copy_in(s, slot.data(), s.k_bytes(), s.slot_bytes() - s.k_bytes(), t, job.page);
        }
    }
    return not_finite;
}

void ref_decode(const DecodePage& job) {
    const Shape s = shape_of(job.spec, job.geometry);
    for (uint32_t t = job.first; t < job.last; ++t) {
        Slot slot;
        copy_out(s, job.page, 0, s.slot_bytes(), t, slot.data());
        if (job.k != nullptr)
            decode_key(s, slot.data(), job.original_space, job.k + t * job.k_stride);
        if (job.v != nullptr) decode_value(s, slot.data() + s.k_bytes(), job.v + t * job.v_stride);
    }
}

}  // namespace quire::codec::slots
