// The numbers that other projects' writers were given for the files in tests/golden/interop, whose
// README says the same in words; tools/lib/interop/inputs.py makes them in Python.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "codec/vectors/golden.h"
#include "core/half.h"

namespace quire::codec {

inline constexpr uint32_t kInteropRows = 12;

// A row is a token's numbers of one KV head, heads next to each other.
constexpr uint32_t interop_heads(uint32_t head_dim) {
    return head_dim == 256 ? 1 : head_dim == 128 ? 2 : head_dim == 64 ? 4 : 6;
}

struct InteropRows {
    uint32_t dim;
    std::vector<float> k, v;  // [kInteropRows][dim]

    std::span<float> k_row(uint32_t row) { return std::span(k).subspan(size_t{row} * dim, dim); }
    std::span<float> v_row(uint32_t row) { return std::span(v).subspan(size_t{row} * dim, dim); }
};

// Rows 10 and on of the golden input, which are like any other.
inline InteropRows plain_rows(uint32_t dim) {
    const GoldenInput in = golden_input(dim, 10 + kInteropRows, 2);
    const auto from = static_cast<ptrdiff_t>(size_t{10} * dim);
    return {dim, {in.k.begin() + from, in.k.end()}, {in.v.begin() + from, in.v.end()}};
}

inline void multiply(std::span<float> row, float factor) {
    for (float& x : row) x *= factor;
}

inline void round_to(Element element, std::span<float> numbers) {
    for (float& x : numbers)
        x = element == Element::f16 ? f16_to_f32(f32_to_f16(x)) : bf16_to_f32(f32_to_bf16(x));
}

inline InteropRows slot_rows(uint32_t dim) {
    InteropRows rows = plain_rows(dim);
    std::ranges::fill(rows.k_row(1), 0.0f);
    std::ranges::fill(rows.v_row(1), -0.0f);
    std::ranges::fill(rows.v_row(2), 1.5f);
    for (const bool values : {false, true}) {
        const auto row = [&](uint32_t i) { return values ? rows.v_row(i) : rows.k_row(i); };
        row(3)[2] *= 128;
        multiply(row(4), 0x1p-12f);
        multiply(row(5), 1024);
    }
    for (uint32_t d = 0; d < dim; ++d) {
        rows.k_row(6)[d] = d == 0 ? 1.0f : 0.0f;
        rows.v_row(6)[d] = static_cast<float>(d % 16) - 3.0f;
        rows.v_row(7)[d] = static_cast<float>(d % 31) / 2;
    }
    const Element element = dim == 128 ? Element::f16 : Element::bf16;
    round_to(element, rows.k);
    round_to(element, rows.v);
    return rows;
}

// The last 64 numbers of a row are its rotary part.
inline InteropRows mla_rows(uint32_t dim) {
    InteropRows rows = plain_rows(dim);
    const auto latent = [&](uint32_t row) { return rows.k_row(row).first(dim - 64); };
    std::ranges::fill(latent(1), 0.0f);
    std::ranges::fill(rows.k_row(2), 1.5f);
    latent(3)[2] *= 128;
    multiply(rows.k_row(4), 0x1p-12f);
    multiply(rows.k_row(5), 0x1p10f);
    multiply(rows.k_row(7), 0x1p-60f);
    multiply(rows.k_row(8), 0x1p-7f);
    std::ranges::fill(latent(6), 448.0f);
    std::ranges::fill(latent(9), 3.5f);
    round_to(Element::bf16, rows.k);
    return rows;
}

}  // namespace quire::codec
