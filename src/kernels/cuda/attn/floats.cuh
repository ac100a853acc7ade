// Chunks of pages of 8-bit floats: codec fp8's, K [head_dim][block_tokens], V
// [block_tokens][head_dim], then with Scaling::token the f16 scales of K and of V.
//
// A lane has the bytes that it would have of codes of 8 bits (codec/chunk.h), and V lies as those
// do: WarpState does the products; only what a byte stands for is another thing. Slot:
// [K][V][scales of K: f16 of 32 tokens][of V].
#pragma once

#include "kernels/cuda/codec/expand.h"
#include "kernels/cuda/ptx/floats.cuh"
#include "kernels/cuda/ptx/lane_copy.cuh"
#include "kernels/cuda/ptx/shared.cuh"
#include "kernels/cuda/ptx/words.cuh"

namespace quire::kernels::cuda {

inline constexpr int kFloatBits = 8;
inline constexpr uint32_t kFloatScaleBytes = 2 * kChunkTokens;  // of a side of a slot
// The smallest scale is 2^-24 (codec/fp8/README.md): units of scales, in sixteenths of an octave as
// those of codes, count from there.
inline constexpr float kFloatScaleOctaves = 24;

// K of a dimension is 32 bytes, a sector of memory: copies that put half a sector elsewhere than
// its other half ask for it twice. After four dimensions there are 32 bytes more, so that a warp's
// words lie in banks of their own.
template <uint32_t kHeadDim>
struct FloatSlot {
    using Map = ChunkMap<kHeadDim>;
    static constexpr uint32_t key_at(uint32_t dim, uint32_t group) {
        return (2 * dim + dim / 4 * 2 + group) * kVectorBytes;
    }
    static constexpr uint32_t kValuesAt = key_at(kHeadDim, 0);
    static constexpr uint32_t kScalesAt = kValuesAt + Map::v_plane(kFloatBits, 1);
    static constexpr uint32_t kBytes = kScalesAt + 2 * kFloatScaleBytes;
};

// The four dimensions of a step, as k_codes() has them.
struct FloatKeys {
    template <uint32_t kHeadDim, int kBits, class Load>
    __device__ __forceinline__ CodeRows<4> keys(uint32_t g, uint32_t t, uint32_t step,
                                                Load load) const {
        using Slot = FloatSlot<kHeadDim>;
        const uint32_t lane = Slot::key_at(2 * t, g / 4) + g % 4 * 4;
        CodeRows<4> rows;
#pragma unroll
        for (uint32_t r = 0; r < 4; ++r)
            rows.row[r] =
                load(lane + Slot::key_at(16 * step + r / 2 * 8, 0) + r % 2 * 2 * kVectorBytes);
        return rows;
    }
};

// Levels of WarpState's products: levels[i] is of byte i of first, and of byte i of second. NaNs
// stay NaNs.
struct E4m3Levels : FloatKeys {
    template <int kBits>
    __device__ __forceinline__ void levels_of(uint32_t first, uint32_t second,
                                              uint32_t (&levels)[4]) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint32_t pairs = pick_bytes(first, second, half == 0 ? 0x5140 : 0x7362);
            levels[2 * half] = f16_of_e4m3(pairs);
            levels[2 * half + 1] = f16_of_e4m3(pairs >> 16);
        }
    }
};
// E5M2 is the upper half of f16.
struct E5m2Levels : FloatKeys {
    template <int kBits>
    __device__ __forceinline__ void levels_of(uint32_t first, uint32_t second,
                                              uint32_t (&levels)[4]) const {
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i)
            levels[i] = pick_bytes(first, second, 0x4400 + i * 0x1111) & 0xff00ff00;
    }
};

// K of all groups of kGroups / 2 slots: lane i brings of group i % kGroups, of which `from` is the
// first dimension, so that lanes beside each other read on where a page goes on.
template <uint32_t kHeadDim, uint32_t kGroups>
__device__ __forceinline__ void bring_float_keys(uint32_t slots, uint32_t slot_bytes,
                                                 const std::byte* from, uint32_t block_tokens) {
    using Slot = FloatSlot<kHeadDim>;
    constexpr uint32_t kAtOnce = 32 / kGroups;  // dimensions
    static_assert(kAtOnce % 4 == 0);
    const uint32_t lane = threadIdx.x % 32, group = lane % kGroups;
    const uint32_t to = slots + group / 2 * slot_bytes + Slot::key_at(lane / kGroups, group % 2);
    from += uint64_t{lane / kGroups} * block_tokens;
#pragma unroll
    for (uint32_t dim = 0; dim < kHeadDim; dim += kAtOnce) {
        copy_16(to + Slot::key_at(dim, 0), from);
        from += kAtOnce * block_tokens;
    }
}

// The exponent of a scale, as a unit: it is below 2^(unit / 16 - kFloatScaleOctaves), and at least
// half of that. REQUIRES: scale >= 2^-24.
__device__ __forceinline__ int32_t float_scale_unit(float scale) {
    return (static_cast<int32_t>(__float_as_uint(scale) >> 23) - 102) * 16;
}

}  // namespace quire::kernels::cuda
