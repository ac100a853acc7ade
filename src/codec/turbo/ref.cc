#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "codec/turbo/table.h"
#include "codec/turbo/turbo.h"
#include "core/half.h"

namespace quire::codec::turbo {
namespace {

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

void put_half(std::byte* p, double x) {
    const uint16_t half = f32_to_f16(static_cast<float>(std::min(x, 65504.0)));
    std::memcpy(p, &half, sizeof(half));
}
double get_half(const std::byte* p) {
    uint16_t half;
    std::memcpy(&half, p, sizeof(half));
    return double{f16_to_f32(half)};
}

double length(const Batch& batch, uint32_t head_dim, uint32_t row) {
    double squares = 0;
    for (uint32_t d = 0; d < head_dim; ++d) squares += batch[d][row] * batch[d][row];
    return std::sqrt(squares);
}

// A coordinate's levels in ascending order.
class Quantiser {
 public:
    Quantiser(uint32_t bits, uint32_t head_dim)
        : half_(1u << (bits - 1)),
          levels_(levels_of(bits, head_dim)),
          unit_(1 / std::sqrt(static_cast<double>(head_dim))) {}

    double level(uint32_t code) const {
        return unit_ *
               (code < half_ ? -double{levels_[half_ - 1 - code]} : double{levels_[code - half_]});
    }
    uint32_t code(double y) const {
        uint32_t code = 0;
        while (code + 1 < 2 * half_ && y >= (level(code) + level(code + 1)) / 2) ++code;
        return code;
    }

 private:
    uint32_t half_;
    const float* levels_;
    double unit_;
};

bool is_finite(const float* row, uint32_t n) {
    return std::all_of(row, row + n, [](float x) { return std::isfinite(x); });
}

std::byte* norm_of(const Side& side, std::byte* row) {
    return row + side.head_dim * side.bits / 8;
}
const std::byte* norm_of(const Side& side, const std::byte* row) {
    return row + side.head_dim * side.bits / 8;
}

using Flags = std::array<bool, kBatchRows>;

// Signs of S times the residuals of the rows that are coded, and their lengths.
void encode_residuals(const Side& side, uint64_t seed, const Batch& residuals,
                      const Flags& is_coded, std::byte* to) {
    std::array<double, kMaxDim> s;
    for (uint32_t i = 0; i < side.head_dim; ++i) {
        projection_row(seed, i, std::span(s).first(side.head_dim));
        Lanes dot{};
        for (uint32_t d = 0; d < side.head_dim; ++d)
            for (uint32_t r = 0; r < kBatchRows; ++r) dot[r] += s[d] * residuals[d][r];
        for (uint32_t r = 0; r < kBatchRows; ++r)
            if (is_coded[r] && dot[r] >= 0)
                put(to + r * side.row_bytes() + side.codes_bytes(), 1, i, 1);
    }
    for (uint32_t r = 0; r < kBatchRows; ++r)
        if (is_coded[r])
            put_half(norm_of(side, to + r * side.row_bytes()) + 2,
                     length(residuals, side.head_dim, r));
}

void add_residuals(const Side& side, uint64_t seed, const std::byte* from, uint32_t rows,
                   Batch& batch) {
    Lanes weight{};
    for (uint32_t r = 0; r < rows; ++r)
        weight[r] = std::sqrt(std::numbers::pi / 2) / side.head_dim *
                    get_half(norm_of(side, from + r * side.row_bytes()) + 2);
    std::array<double, kMaxDim> s;
    for (uint32_t i = 0; i < side.head_dim; ++i) {
        projection_row(seed, i, std::span(s).first(side.head_dim));
        Lanes signed_weight{};
        for (uint32_t r = 0; r < rows; ++r) {
            const uint32_t sign = get(from + r * side.row_bytes() + side.codes_bytes(), 1, i);
            signed_weight[r] = sign != 0 ? weight[r] : -weight[r];
        }
        for (uint32_t d = 0; d < side.head_dim; ++d)
            for (uint32_t r = 0; r < kBatchRows; ++r) batch[d][r] += signed_weight[r] * s[d];
    }
}

}  // namespace

uint32_t encode_rows(const Side& side, uint64_t seed, const float* in, size_t stride, uint32_t rows,
                     std::byte* to) {
    Batch batch{};
    uint32_t not_finite = 0;
    std::memset(to, 0, size_t{rows} * side.row_bytes());
    Flags is_coded{};
    for (uint32_t r = 0; r < rows; ++r) {
        const float* row = in + r * stride;
        if (!is_finite(row, side.head_dim)) {
            ++not_finite;
            continue;
        }
        for (uint32_t d = 0; d < side.head_dim; ++d) batch[d][r] = double{row[d]};
        const double norm = length(batch, side.head_dim, r);
        is_coded[r] = norm > 0;
        if (!is_coded[r]) continue;
        for (uint32_t d = 0; d < side.head_dim; ++d) batch[d][r] /= norm;
        put_half(norm_of(side, to + r * side.row_bytes()), norm);
    }
    rotate(side.rotation, seed, side.head_dim, batch);
    const Quantiser quantiser(side.level_bits(), side.head_dim);
    for (uint32_t r = 0; r < rows; ++r)
        for (uint32_t d = 0; is_coded[r] && d < side.head_dim; ++d) {
            const uint32_t code = quantiser.code(batch[d][r]);
            put(to + r * side.row_bytes(), side.level_bits(), d, code);
            batch[d][r] -= quantiser.level(code);
        }
    if (side.is_product) encode_residuals(side, seed, batch, is_coded, to);
    return not_finite;
}

void decode_rows(const Side& side, uint64_t seed, const std::byte* from, uint32_t rows,
                 bool original_space, float* out, size_t stride) {
    Batch batch{};
    const Quantiser quantiser(side.level_bits(), side.head_dim);
    for (uint32_t r = 0; r < rows; ++r)
        for (uint32_t d = 0; d < side.head_dim; ++d)
            batch[d][r] = quantiser.level(get(from + r * side.row_bytes(), side.level_bits(), d));
    if (side.is_product) add_residuals(side, seed, from, rows, batch);
    if (original_space) unrotate(side.rotation, seed, side.head_dim, batch);
    for (uint32_t r = 0; r < rows; ++r) {
        const double norm = get_half(norm_of(side, from + r * side.row_bytes()));
        for (uint32_t d = 0; d < side.head_dim; ++d)
            out[r * stride + d] = static_cast<float>(norm * batch[d][r]);
    }
}

namespace {

// Calls f(first, rows) for runs of at most sixteen tokens.
template <class F>
uint32_t by_batches(uint32_t first, uint32_t last, F f) {
    uint32_t sum = 0;
    for (uint32_t t = first; t < last; t += kBatchRows) sum += f(t, std::min(kBatchRows, last - t));
    return sum;
}

}  // namespace

uint32_t ref_encode(const EncodePage& job) {
    const Side k = k_side(job.spec, job.geometry), v = v_side(job.spec, job.geometry);
    std::byte* values = job.page + size_t{job.geometry.block_tokens} * k.row_bytes();
    return by_batches(job.first, job.last, [&](uint32_t t, uint32_t rows) {
        uint32_t not_finite = 0;
        if (job.k != nullptr)
            not_finite += encode_rows(k, kSeed, job.k + t * job.k_stride, job.k_stride, rows,
                                      job.page + size_t{t} * k.row_bytes());
        if (job.v != nullptr)
            not_finite += encode_rows(v, kSeed, job.v + t * job.v_stride, job.v_stride, rows,
                                      values + size_t{t} * v.row_bytes());
        return not_finite;
    });
}

void ref_decode(const DecodePage& job) {
    const Side k = k_side(job.spec, job.geometry), v = v_side(job.spec, job.geometry);
    const std::byte* values = job.page + size_t{job.geometry.block_tokens} * k.row_bytes();
    by_batches(job.first, job.last, [&](uint32_t t, uint32_t rows) {
        if (job.k != nullptr)
            decode_rows(k, kSeed, job.page + size_t{t} * k.row_bytes(), rows, job.original_space,
                        job.k + t * job.k_stride, job.k_stride);
        if (job.v != nullptr)
            decode_rows(v, kSeed, values + size_t{t} * v.row_bytes(), rows, job.original_space,
                        job.v + t * job.v_stride, job.v_stride);
        return 0u;
    });
}

}  // namespace quire::codec::turbo
