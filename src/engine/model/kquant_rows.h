// Products of few rows with K-quantised weights that give the same bits as ggml's tiled product.
//
// ggml multiplies K-quants by a vector kernel below 8 rows and by a tiled kernel from 8 on; the two
// sum in a different order. The tiled order is simple: per 256 weights two exact integer sums, then
//   acc = acc + d_act * (d * s1 - dmin * s2).
// These kernels follow it one row at a time, as fast as ggml's vector kernel. matmul_traits.h
// checks the equality on the machine before they are used.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire {

// Whether the last step above is one fused multiply-add or a product and a sum: up to ggml's
// compiler.
enum class Accumulate : uint8_t { fused, separate };

// One weight row times one activation row quantised to ggml's Q8_K; n is a multiple of 256.
using KquantDot = float (*)(const void* weight_row, const void* q8k_row, int64_t n);

// nullptr: no kernel for this ggml type or this CPU (AVX2, FMA and F16C are needed).
KquantDot kquant_dot(int32_t ggml_type, Accumulate accumulate);

}  // namespace quire
