// The functions behind the rows of product_table().
#pragma once

#include "engine/model/packed/product.h"

namespace quire::packed {

void ref_quantise_row(const float* in, int64_t n_in, std::byte* tile, int32_t slot);
void ref_multiply(const Product& product);
void ref_gate(Gate kind, const float* gate, const float* up, int64_t n, float* out);
void avx2_quantise_row(const float* in, int64_t n_in, std::byte* tile, int32_t slot);
void avx2_multiply(const Product& product);  // AVX2, FMA, F16C
void avx2_gate(Gate kind, const float* gate, const float* up, int64_t n, float* out);
void avx512_quantise_row(const float* in, int64_t n_in, std::byte* tile, int32_t slot);
void avx512_multiply(const Product& product);  // AVX-512 F, BW, VL, DQ, VNNI
void avx512_gate(Gate kind, const float* gate, const float* up, int64_t n, float* out);

}  // namespace quire::packed
