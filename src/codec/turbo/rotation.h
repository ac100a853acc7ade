// Random rotations and projections of a few rows at once, made from a seed as they are used, so
// that no matrix is kept. README.md defines every number.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace quire::codec::turbo {

inline constexpr uint32_t kMaxDim = 256;
inline constexpr uint32_t kBatchRows = 16;

// Number d of row r is at [d][r]. Unused rows hold zeros.
using Lanes = std::array<double, kBatchRows>;
using Batch = std::array<Lanes, kMaxDim>;

enum class RotationKind : uint8_t { random, hadamard };

// Nearly normal numbers, mean 0 and variance 1.
void random_numbers(uint64_t seed, uint64_t stream, std::span<double> out);

// The first head_dim numbers of every row times an orthogonal matrix, in place, and back.
void rotate(RotationKind kind, uint64_t seed, uint32_t head_dim, Batch& batch);
void unrotate(RotationKind kind, uint64_t seed, uint32_t head_dim, Batch& batch);

// Row i of the matrix S.
void projection_row(uint64_t seed, uint32_t i, std::span<double> out);

}  // namespace quire::codec::turbo
