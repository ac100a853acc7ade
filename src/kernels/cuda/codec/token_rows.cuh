// Codes of 16 tokens in shared memory, of which a page wants rows of a dimension: written a token
// at a time, read by columns of a word and turned in registers.
//
// Tokens lie apart so that what threads write together, and what they read together, is in
// different banks: four tokens of 8 bytes a thread, or two of 16; and eight tokens' columns beside
// those of the eight others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/codec/runs.cuh"

namespace quire::kernels::cuda {

// Rows become columns: out[j] has byte j of all four.
__device__ __forceinline__ void turn_bytes(const uint32_t* rows, uint32_t (&out)[4]) {
    const uint32_t low_01 = __byte_perm(rows[0], rows[1], 0x5140);
    const uint32_t high_01 = __byte_perm(rows[0], rows[1], 0x7362);
    const uint32_t low_23 = __byte_perm(rows[2], rows[3], 0x5140);
    const uint32_t high_23 = __byte_perm(rows[2], rows[3], 0x7362);
    out[0] = __byte_perm(low_01, low_23, 0x5410);
    out[1] = __byte_perm(low_01, low_23, 0x7632);
    out[2] = __byte_perm(high_01, high_23, 0x5410);
    out[3] = __byte_perm(high_01, high_23, 0x7632);
}

template <class Code, int kHeadDim>
struct TokenRows {
    static constexpr uint32_t kCodes = 4 / sizeof(Code);  // of a word
    static constexpr uint32_t kRowWords = kHeadDim / kCodes;
    static constexpr uint32_t kPeriod = sizeof(Code) == 1 ? 16 : 32;
    static constexpr uint32_t kPitch =
        (kRowWords + kPeriod / 2 - 1) / kPeriod * kPeriod + kPeriod / 2;
    static constexpr uint32_t kBytes = (kGroupTokens * kPitch + 16) * 4;
    static_assert(kPitch >= kRowWords);
    uint32_t* words;

    static __device__ __forceinline__ uint32_t at(uint32_t token, uint32_t word) {
        return token * kPitch + token / 8 * 16 + word;
    }
    // Eight codes from dimension 8 * eight on.
    __device__ __forceinline__ void put(uint32_t token, uint32_t eight,
                                        const uint32_t (&codes)[4]) const {
        uint32_t* to = words + at(token, eight * (8 / kCodes));
        if constexpr (sizeof(Code) == 1)
            *reinterpret_cast<uint2*>(to) = make_uint2(codes[0], codes[1]);
        else
            *reinterpret_cast<uint4*>(to) = make_uint4(codes[0], codes[1], codes[2], codes[3]);
    }
    __device__ __forceinline__ Code& code(uint32_t token, uint32_t dim) const {
        return reinterpret_cast<Code*>(words + at(token, 0))[dim];
    }

    // To rows of dimensions `pitch` bytes apart, by the 64 threads of a pair; `written`: bit t,
    // token t is stored.
    __device__ __forceinline__ void store(uint32_t written, uint32_t pitch, std::byte* side) const {
        for (uint32_t i = threadIdx.x % 64; i < 2 * kRowWords; i += 64) {
            const uint32_t column = i / 2, first = i % 2 * 8;  // token
            std::byte* to = side + column * kCodes * pitch + first * sizeof(Code);
            if (written == 0xffff)
                store_eight(column, first, pitch, to);
            else
                store_some(column, first, written, pitch, to);
        }
    }
    __device__ __forceinline__ void store_eight(uint32_t column, uint32_t first, uint32_t pitch,
                                                std::byte* to) const {
        uint32_t rows[8];
#pragma unroll
        for (uint32_t t = 0; t < 8; ++t) rows[t] = words[at(first, column) + t * kPitch];
        if constexpr (sizeof(Code) == 1) {
            uint32_t low[4], high[4];
            turn_bytes(rows, low);
            turn_bytes(rows + 4, high);
#pragma unroll
            for (int j = 0; j < 4; ++j, to += pitch)
                *reinterpret_cast<uint2*>(to) = make_uint2(low[j], high[j]);
        } else {
#pragma unroll
            for (uint32_t j = 0; j < 2; ++j, to += pitch) {
                uint32_t out[4];
#pragma unroll
                for (int w = 0; w < 4; ++w)
                    out[w] = __byte_perm(rows[2 * w], rows[2 * w + 1], j == 0 ? 0x5410 : 0x7632);
                *reinterpret_cast<uint4*>(to) = make_uint4(out[0], out[1], out[2], out[3]);
            }
        }
    }
    __device__ __forceinline__ void store_some(uint32_t column, uint32_t first, uint32_t written,
                                               uint32_t pitch, std::byte* to) const {
#pragma unroll 1
        for (uint32_t j = 0; j < kCodes; ++j, to += pitch)
#pragma unroll 1
            for (uint32_t t = 0; t < 8; ++t)
                if (written >> (first + t) & 1)
                    reinterpret_cast<Code*>(to)[t] = code(first + t, column * kCodes + j);
    }
};

}  // namespace quire::kernels::cuda
