// Levels of codes as f16, two in a register: from a table in shared memory where codes are few, by
// arithmetic where levels are integers.
//
// The table has 256 entries of 256 bytes, half of each for K and half for V. A half has a word for
// each lane of a warp, so that 32 look-ups at 32 indices take one cycle; with 2 bits an entry is
// two words, for 16 lanes at a time. An address is then an index byte above a lane's own byte: one
// byte permutation, and no arithmetic.
#pragma once

#include <cuda_fp16.h>

#include "kernels/cuda/codec/expand.h"
#include "kernels/cuda/launch_kernel.cuh"
#include "kernels/cuda/ptx/floats.cuh"
#include "kernels/cuda/ptx/shared.cuh"

namespace quire::kernels::cuda {

inline constexpr uint32_t kTableBytes = 256 * 256;

constexpr bool has_table(int bits) {
    return codec::hot::is_lloyd(bits);
}

__device__ inline uint32_t table_entry(bool keys, int bits, uint32_t index, uint32_t entry) {
    const CodesOfEntry codes = keys ? k_entry(bits, index, entry) : v_entry(bits, index, entry);
    return f16_pair(level_of(bits, codes.first), level_of(bits, codes.second));
}

// To the start of dynamic shared memory, by all warps of the block; then a barrier. A lane works
// out one entry of 32, and a warp writes four at a time.
__device__ inline void fill_table(int k_bits, int v_bits) {
    const uint32_t lane = threadIdx.x % 32;
#pragma unroll 1
    for (uint32_t first = threadIdx.x & ~31u; first < 512; first += blockDim.x) {
        const bool keys = first < 256;
        const int bits = keys ? k_bits : v_bits;
        if (!has_table(bits)) continue;
        const uint32_t own = (first + lane) % 256;
        const uint32_t low = table_entry(keys, bits, own, 0);
        const uint32_t high = bits == 2 ? table_entry(keys, bits, own, 1) : low;
        std::byte* to = dynamic_shared() + size_t{first % 256} * 256 + (keys ? 0 : 128);
#pragma unroll 1
        for (uint32_t i = lane / 8; i < 32; i += 4) {
            const uint32_t even = __shfl_sync(0xffffffff, low, static_cast<int>(i));
            const uint32_t odd = __shfl_sync(0xffffffff, high, static_cast<int>(i));
            *reinterpret_cast<uint4*>(to + i * 256 + lane % 8 * 16) = {even, odd, even, odd};
        }
    }
}

// One lane's view of the table of one side.
struct LevelTable {
    uint32_t lane;  // of its words in an entry

    __device__ LevelTable(bool keys, int bits)
        : lane((bits == 2 ? threadIdx.x % 16 * 8 : threadIdx.x % 32 * 4) + (keys ? 0 : 128)) {}

    // Of byte i of a word of indices, in the table.
    __device__ __forceinline__ uint32_t offset(uint32_t indices, uint32_t i) const {
        return __byte_perm(indices, lane, 0x7604 + (i << 4));
    }

    // Levels of the entries of four indices: near[i], far[i] of byte i.
    template <int kBits>
    __device__ __forceinline__ void look_up_pairs(const IndexPair& indices, uint32_t (&near)[4],
                                                  uint32_t (&far)[4]) const {
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
            if constexpr (kBits == 2) {
                const uint2 both = look_up_two(offset(indices.near, i));
                near[i] = both.x;
                far[i] = both.y;
            } else {
                near[i] = look_up(offset(indices.near, i));
                far[i] = look_up(offset(indices.far, i));
            }
        }
    }

    template <uint32_t kHeadDim, int kBits, class Load>
    __device__ __forceinline__ CodeRows<4> keys(uint32_t g, uint32_t t, uint32_t step,
                                                Load load) const {
        return k_codes<kHeadDim, kBits>(g, t, step, load);
    }

    // levels[i]: of byte i of first, and of byte i of second. For 5 bits and more.
    template <int kBits>
    __device__ __forceinline__ void levels_of(uint32_t first, uint32_t second,
                                              uint32_t (&levels)[4]) const {
        if constexpr (kBits == 5) {
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i)
                levels[i] =
                    pick_bytes(look_up(offset(first, i)), look_up(offset(second, i)), 0x5410);
        } else {
            const __half2 bias = __float2half2_rn(1024.0f + codec::hot::magnitudes(kBits));
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const LevelPairs biased = biased_levels(first, second, half);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const __half2 level =
                        __hsub2(*reinterpret_cast<const __half2*>(&biased.word[i]), bias);
                    levels[2 * half + i] = *reinterpret_cast<const uint32_t*>(&level);
                }
            }
        }
    }
};

}  // namespace quire::kernels::cuda
