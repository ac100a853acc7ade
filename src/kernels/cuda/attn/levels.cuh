// Levels of codes as f16, two in a register: from tables in shared memory where codes are few, by
// arithmetic where levels are integers.
//
// Each lane of a warp has a copy of a table in a bank of its own, so that 32 look-ups at 32 indices
// take one cycle. A byte that holds two codes is one look-up.
#pragma once

#include <cuda_fp16.h>

#include "kernels/cuda/codec/expand.h"

namespace quire::kernels::cuda {

// Entries of the table for a width: pairs of codes to 4 bits, single codes of 5, none above.
constexpr int table_entries(int bits) {
    return bits <= 4 ? 1 << (2 * bits) : bits == 5 ? 32 : 0;
}
constexpr int table_words(int bits) {
    return 32 * table_entries(bits);
}

__device__ __forceinline__ uint32_t f16_pair(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
}

// By all threads of the block; then a barrier.
template <int kBits>
__device__ inline void fill_table(uint32_t* table) {
    if constexpr (kBits <= 5) {
        for (uint32_t i = threadIdx.x; i < static_cast<uint32_t>(table_words(kBits));
             i += blockDim.x) {
            const uint32_t index = i / 32;
            if constexpr (kBits <= 4)
                table[i] = f16_pair(level_of<kBits>(index & ((1u << kBits) - 1)),
                                    level_of<kBits>(index >> kBits));
            else
                table[i] = f16_pair(level_of<kBits>(index), level_of<kBits>(index));
        }
    }
}

// Word i of `levels` is {level of byte i of first, level of byte i of second}. `table`: the lane's
// column.
template <int kBits>
__device__ __forceinline__ void to_levels(uint32_t first, uint32_t second, const uint32_t* table,
                                          uint32_t (&levels)[4]) {
    if constexpr (kBits <= 4) {
        const uint32_t pairs = pair_indices<kBits>(first, second);
#pragma unroll
        for (int i = 0; i < 4; ++i) levels[i] = table[(pairs >> (8 * i) & 0xff) * 32];
    } else if constexpr (kBits == 5) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            levels[i] = pick_bytes(table[(first >> (8 * i) & 0xff) * 32],
                                   table[(second >> (8 * i) & 0xff) * 32], 0x5410);
    } else {
        const uint32_t bias = f16_pair(1024.0f + codec::hot::magnitudes(kBits),
                                       1024.0f + codec::hot::magnitudes(kBits));
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const LevelPairs biased = biased_levels(first, second, half);
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const __half2 level = __hsub2(*reinterpret_cast<const __half2*>(&biased.word[i]),
                                              *reinterpret_cast<const __half2*>(&bias));
                levels[2 * half + i] = *reinterpret_cast<const uint32_t*>(&level);
            }
        }
    }
}

}  // namespace quire::kernels::cuda
