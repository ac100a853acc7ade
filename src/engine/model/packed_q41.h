// Products with Q4_1 weights, 16 outputs at a time, on CPUs with AVX-512 VNNI.
//
// ggml multiplies Q4_1 one output and one row at a time and unpacks the same nibbles for every row.
// Here weights are interleaved once at load so that one vector holds 4 inputs of 16 outputs, and
// unpacked once for up to 8 rows. Activations are rounded to 8 bits per 32 inputs as ggml does
// (Q8_1). Every row's sum is taken in one order, whatever rows are beside it:
//   per 32 inputs an exact integer sum s, then  acc = acc + (d_w d_a) s,  acc = acc + m_w (d_a sum
//   a).
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire {

inline constexpr int64_t kPackedOutputs = 16;
inline constexpr int64_t kPackedInputs = 32;

// Whether this CPU has what the functions below need.
bool packed_q41_supported();

// Bytes of [n_out] x [n_in] packed. REQUIRES: n_in % 32 == 0, n_out % 16 == 0.
size_t packed_q41_bytes(int64_t n_in, int64_t n_out);
// Interleaves rows of ggml Q4_1 blocks, `row_bytes` apart.
void pack_q41(const void* weights, size_t row_bytes, int64_t n_in, int64_t n_out,
              std::byte* packed);

// One activation row: n_in int8, then per 32 inputs the step d and d * sum, as float32.
size_t packed_row_bytes(int64_t n_in);
void quantise_packed_row(const float* in, int64_t n_in, std::byte* row);

// out[r][i] for r in [0, n_rows) and the 16 outputs of packed group `group`; rows are
// packed_row_bytes() apart and results out_stride floats.
void multiply_packed_q41(const std::byte* packed, int64_t group, int64_t n_in,
                         const std::byte* rows, int32_t n_rows, float* out, int64_t out_stride);

}  // namespace quire
