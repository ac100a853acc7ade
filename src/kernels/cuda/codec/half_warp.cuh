// The vocabulary of sixteen threads, half a warp, for what is written once for every instruction
// set: a vector of sixteen numbers is a register of each thread, and thread i % 16 has lane i % 16.
//
// Everything rounds as on a CPU: the intrinsics below are never joined to fused operations, and
// denormal numbers stay. Compile without --use_fast_math.
//
// All sixteen threads must call together; the other half of the warp may be elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quire::kernels::cuda {

struct HalfWarp {
    using f32 = float;
    using i32 = int32_t;

    static __device__ uint32_t lane() { return threadIdx.x % 16; }
    // Of the half of the warp that this thread is in.
    static __device__ uint32_t mask() { return 0xffffu << (threadIdx.x & 16); }

    static __device__ f32 load(const float* p) { return p[lane()]; }
    static __device__ void store(float* p, f32 x) { p[lane()] = x; }
    static __device__ f32 zero() { return 0.0f; }
    static __device__ f32 set1(float x) { return x; }
    static __device__ f32 add(f32 a, f32 b) { return __fadd_rn(a, b); }
    static __device__ f32 sub(f32 a, f32 b) { return __fsub_rn(a, b); }
    static __device__ f32 mul(f32 a, f32 b) { return __fmul_rn(a, b); }
    static __device__ f32 min(f32 a, f32 b) { return fminf(a, b); }
    static __device__ f32 max(f32 a, f32 b) { return fmaxf(a, b); }
    static __device__ f32 fma(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }
    static __device__ f32 fnma(f32 a, f32 b, f32 c) { return __fmaf_rn(-a, b, c); }
    static __device__ f32 abs(f32 x) { return fabsf(x); }
    static __device__ f32 round_even(f32 x) { return rintf(x); }

    template <int kDistance>
    static __device__ f32 shuffle(f32 x) {
        return __shfl_xor_sync(mask(), x, kDistance, 16);
    }
    // 8 + 8, 4 + 4, 2 + 2, 1 + 1; the same in every thread, for a + b is b + a.
    static __device__ float sum(f32 x) {
        x = add(x, shuffle<8>(x));
        x = add(x, shuffle<4>(x));
        x = add(x, shuffle<2>(x));
        return add(x, shuffle<1>(x));
    }
    template <int kDistance>
    static __device__ f32 butterfly(f32 x) {
        const f32 other = shuffle<kDistance>(x);
        return (lane() & kDistance) == 0 ? add(x, other) : sub(other, x);
    }

    static __device__ i32 bits(f32 x) { return __float_as_int(x); }
    static __device__ f32 from_bits(i32 x) { return __int_as_float(x); }
    static __device__ i32 iset1(int32_t x) { return x; }
    static __device__ i32 iadd(i32 a, i32 b) { return a + b; }
    static __device__ i32 isub(i32 a, i32 b) { return a - b; }
    static __device__ i32 ixor(i32 a, i32 b) { return a ^ b; }
    static __device__ i32 imax(i32 a, i32 b) { return a > b ? a : b; }
    template <int kBits>
    static __device__ i32 shift_left(i32 x) {
        return static_cast<i32>(static_cast<uint32_t>(x) << kBits);
    }
    template <int kBits>
    static __device__ i32 shift_sign(i32 x) {
        return x >> kBits;
    }
    static __device__ int32_t largest(i32 x) {
        for (int distance = 8; distance > 0; distance /= 2)
            x = imax(x, __shfl_xor_sync(mask(), x, distance, 16));
        return x;
    }
    static __device__ i32 to_int(f32 x) { return __float2int_rn(x); }
    static __device__ f32 to_float(i32 x) { return __int2float_rn(x); }
    static __device__ i32 add_where_at_least(i32 count, f32 x, f32 threshold, int32_t step) {
        return x >= threshold ? count + step : count;
    }

    // A table lies in the threads' registers, an entry each.
    struct Table {
        float entry;
    };
    static __device__ Table table8(const float* p) { return {p[lane() % 8]}; }
    static __device__ Table table16(const float* p) { return {p[lane()]}; }
    static __device__ f32 look_up(const Table& t, i32 index) {
        return __shfl_sync(mask(), t.entry, index, 16);
    }

    static __device__ i32 load_u8(const void* p) { return static_cast<const uint8_t*>(p)[lane()]; }
    static __device__ void store_u8(void* p, i32 x) {
        static_cast<uint8_t*>(p)[lane()] = static_cast<uint8_t>(x);
    }
};

}  // namespace quire::kernels::cuda
