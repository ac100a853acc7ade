#include "codec/turbo/rotation.h"

#include <bit>
#include <cmath>

#include "base/rng.h"

namespace quire::codec::turbo {
namespace {

constexpr uint64_t kStreamStep = 0xd1342543de82ef95u;
constexpr uint64_t kProjectionStream = uint64_t{1} << 16;

void negate_some(uint64_t seed, uint32_t head_dim, Batch& batch) {
    uint64_t state = seed, word = 0;
    for (uint32_t d = 0; d < head_dim; ++d) {
        if (d % 64 == 0) word = Rng::splitmix(state);
        if ((word >> d % 64 & 1) != 0)
            for (double& x : batch[d]) x = -x;
    }
}

// Reflects the last k numbers of every row.
void reflect(uint64_t seed, uint32_t head_dim, uint32_t k, Batch& batch) {
    std::array<double, kMaxDim> u;
    random_numbers(seed, k, std::span(u).first(k));
    double squares = 0;
    for (uint32_t i = 0; i < k; ++i) squares += u[i] * u[i];
    u[0] += std::copysign(std::sqrt(squares), u[0]);
    squares = 0;
    for (uint32_t i = 0; i < k; ++i) squares += u[i] * u[i];
    if (squares == 0) return;
    Lanes* x = batch.data() + (head_dim - k);
    Lanes along{};
    for (uint32_t i = 0; i < k; ++i)
        for (uint32_t r = 0; r < kBatchRows; ++r) along[r] += u[i] * x[i][r];
    for (double& a : along) a = a * 2 / squares;
    for (uint32_t i = 0; i < k; ++i)
        for (uint32_t r = 0; r < kBatchRows; ++r) x[i][r] -= along[r] * u[i];
}

void hadamard(uint32_t head_dim, Batch& batch) {
    const uint32_t block = head_dim & (0 - head_dim);
    const double norm = 1 / std::sqrt(static_cast<double>(block));
    for (uint32_t h = 1; h < block; h *= 2)
        for (uint32_t d = 0; d < head_dim; ++d) {
            if ((d & h) != 0) continue;
            for (uint32_t r = 0; r < kBatchRows; ++r) {
                const double a = batch[d][r], b = batch[d + h][r];
                batch[d][r] = a + b;
                batch[d + h][r] = a - b;
            }
        }
    for (uint32_t d = 0; d < head_dim; ++d)
        for (double& x : batch[d]) x *= norm;
}

}  // namespace

void random_numbers(uint64_t seed, uint64_t stream, std::span<double> out) {
    uint64_t state = seed + stream * kStreamStep;
    for (double& x : out) {
        int ones = 0;
        for (int i = 0; i < 4; ++i) ones += std::popcount(Rng::splitmix(state));
        x = (ones - 128) / 8.0;
    }
}

void rotate(RotationKind kind, uint64_t seed, uint32_t head_dim, Batch& batch) {
    negate_some(seed, head_dim, batch);
    if (kind == RotationKind::hadamard) return hadamard(head_dim, batch);
    for (uint32_t k = 2; k <= head_dim; ++k) reflect(seed, head_dim, k, batch);
}

void unrotate(RotationKind kind, uint64_t seed, uint32_t head_dim, Batch& batch) {
    if (kind == RotationKind::hadamard) hadamard(head_dim, batch);
    for (uint32_t k = head_dim; kind == RotationKind::random && k >= 2; --k)
        reflect(seed, head_dim, k, batch);
    negate_some(seed, head_dim, batch);
}

void projection_row(uint64_t seed, uint32_t i, std::span<double> out) {
    random_numbers(seed, kProjectionStream + i, out);
}

}  // namespace quire::codec::turbo
