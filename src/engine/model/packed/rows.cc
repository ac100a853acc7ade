#include "engine/model/packed/rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace quire::packed {
namespace {

constexpr float kLargest = 32767.0f;
// Adding it leaves the rounded integer in the low bits of the sum, in every vector unit alike.
constexpr float kRounder = 0x1.8p23f;

int32_t round_even(float x) {
    return std::bit_cast<int32_t>(x + kRounder) - std::bit_cast<int32_t>(kRounder);
}

}  // namespace

void quantise_row(const float* in, int64_t n_in, std::byte* row) {
    const Row at = row_at(row, n_in);
    auto* values = const_cast<int16_t*>(at.values);
    auto* steps = const_cast<float*>(at.steps);
    auto* sums = const_cast<float*>(at.sums);
    auto* half_sums = const_cast<int32_t*>(at.half_sums);
    for (int64_t b = 0; b < blocks_of(n_in); ++b, in += kInputs, values += kInputs) {
        // Comparing bits lets a NaN win: it is above every number.
        int32_t top = 0;
        for (int i = 0; i < kInputs; ++i)
            top = std::max(top, std::bit_cast<int32_t>(in[i]) & 0x7fffffff);
        const float largest = std::bit_cast<float>(top);
        const bool finite = std::isfinite(largest);
        // Below the smallest normal step the inverse would not be finite.
        const bool zero = largest < 0x1p-100f;
        const float step = zero ? 0.0f : largest / kLargest;
        const float inverse = zero || !finite ? 0.0f : kLargest / largest;
        int32_t rounded[kInputs];
        for (int i = 0; i < kInputs; ++i) rounded[i] = finite ? round_even(in[i] * inverse) : 0;
        int32_t sum[2] = {};
        for (int i = 0; i < kInputs; ++i) sum[i / 16] += rounded[i];
        for (int i = 0; i < kInputs; i += 4) {
            values[i] = static_cast<int16_t>(rounded[i]);
            values[i + 1] = static_cast<int16_t>(rounded[i + 2]);
            values[i + 2] = static_cast<int16_t>(rounded[i + 1]);
            values[i + 3] = static_cast<int16_t>(rounded[i + 3]);
        }
        steps[b] = finite ? step : NAN;
        sums[b] = steps[b] * static_cast<float>(sum[0] + sum[1]);
        half_sums[2 * b] = sum[0];
        half_sums[2 * b + 1] = sum[1];
    }
}

}  // namespace quire::packed
