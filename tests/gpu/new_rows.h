// New rows of K and V for tests of encoders, and where they go.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda/encode.h"

namespace quire::gpu_testing {

// Numbers as the engine has them, and as float32.
struct Rows {
    std::vector<std::byte> stored;
    std::vector<float> numbers;
};

template <class T>
void round_through(std::vector<float>& numbers, std::vector<std::byte>& stored) {
    stored.resize(numbers.size() * sizeof(T));
    for (size_t i = 0; i < numbers.size(); ++i) {
        const T x = T(numbers[i]);
        std::memcpy(stored.data() + i * sizeof(T), &x, sizeof(T));
        numbers[i] = static_cast<float>(x);
    }
}

inline Rows stored_as(kernels::cuda::Numbers element, std::vector<float> numbers) {
    using kernels::cuda::Numbers;
    Rows rows;
    rows.numbers = std::move(numbers);
    if (element == Numbers::f16) round_through<__half>(rows.numbers, rows.stored);
    if (element == Numbers::bf16) round_through<__nv_bfloat16>(rows.numbers, rows.stored);
    if (element == Numbers::f32) round_through<float>(rows.numbers, rows.stored);
    return rows;
}

// Normal rows of many sizes, and one row in nine that is odd: zeros, an outlier, tiny, a NaN, an
// infinity, denormals, minus zeros, numbers that are all alike.
inline Rows make_rows(kernels::cuda::Numbers element, size_t d, size_t n_rows,
                      std::mt19937_64& rng) {
    using kernels::cuda::Numbers;
    std::normal_distribution<float> normal;
    Rows rows;
    rows.numbers.resize(n_rows * d);
    for (size_t r = 0; r < n_rows; ++r) {
        float* x = rows.numbers.data() + r * d;
        const float size = std::exp2(static_cast<float>(rng() % 12) - 6.0f);
        for (size_t i = 0; i < d; ++i) x[i] = size * normal(rng);
        const size_t at = rng() % d;
        switch (rng() % 72) {
            case 0:
                std::fill(x, x + d, 0.0f);
                break;
            case 1:
                x[at] = 1000.0f;
                break;
            case 2:
                for (size_t i = 0; i < d; ++i) x[i] *= 1e-6f;
                break;
            case 3:
                x[at] = std::numeric_limits<float>::quiet_NaN();
                break;
            case 4:
                x[at] = -std::numeric_limits<float>::infinity();
                break;
            case 5:
                for (size_t i = 0; i < d; ++i) x[i] = 1e-41f * static_cast<float>(i);
                break;
            case 6:
                for (size_t i = 0; i < d; i += 1 + rng() % 3) x[i] = -0.0f;
                break;
            case 7:
                for (size_t i = 0; i < d; ++i) x[i] = std::copysign(size, x[i]);
                break;
            default:
                break;
        }
    }
    return stored_as(element, std::move(rows.numbers));
}

// Slots in the order in which engines give them: runs of tokens that follow each other; now and
// then in any order.
inline std::vector<int64_t> choose_slots(size_t n_blocks, int32_t block_tokens,
                                         std::mt19937_64& rng) {
    std::vector<int64_t> slots, blocks(n_blocks);
    std::iota(blocks.begin(), blocks.end(), 0);
    std::shuffle(blocks.begin(), blocks.end(), rng);
    for (const int64_t block : blocks) {
        const auto first = static_cast<int64_t>(rng() % static_cast<uint64_t>(block_tokens));
        const auto n =
            static_cast<int64_t>(rng() % static_cast<uint64_t>(block_tokens - first) + 1);
        if (rng() % 4 == 0) slots.push_back(-1);
        for (int64_t t = first; t < first + n; ++t)
            if (rng() % 5 != 0) slots.push_back(block * block_tokens + t);
    }
    if (rng() % 2 == 0) std::shuffle(slots.begin(), slots.end(), rng);
    return slots;
}

}  // namespace quire::gpu_testing
