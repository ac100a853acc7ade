// CUDA's words for a CPU, so that kernels' tests run where there is no GPU. Included before a
// kernel's source; what kernels do in assembly is in kernels/cuda/ptx/ beside this, which stands in
// for the folder of that name.
//
// The threads of a block are fibers, which take turns where they wait for each other; blocks follow
// each other. So results, barriers and who writes where are as on a GPU; timing, memory order and
// copies that are still on their way are not.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <type_traits>
#include <utility>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#undef __device__
#undef __forceinline__
#undef __global__
#undef __grid_constant__
#undef __launch_bounds__
#undef __shared__
#define __device__
#define __forceinline__ inline
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static

namespace quire::emulator {

struct Index {
    uint32_t x = 0, y = 0, z = 0;
};
// Of the fiber that runs.
extern Index thread, block, block_size, grid_size;

// Runs every thread of every block.
void run(dim3 blocks, uint32_t threads, size_t shared_bytes, const std::function<void()>& body);
std::byte* dynamic_shared();

// To the next fiber: for who waits for another.
void pause();
void block_barrier();
// One of 16 barriers of the block, for that many of its threads.
void named_barrier(int id, uint32_t threads);
// All lanes of a warp: everybody's word, of 32.
const uint64_t* exchange(uint64_t own);

inline uint32_t lane() {
    return thread.x % 32;
}
template <class T>
T shuffle(T own, uint32_t from) {
    uint64_t word = 0;
    std::memcpy(&word, &own, sizeof own);
    const uint64_t got = exchange(word)[from % 32];
    T out;
    std::memcpy(&out, &got, sizeof out);
    return out;
}

}  // namespace quire::emulator

#define threadIdx (quire::emulator::thread)
#define blockIdx (quire::emulator::block)
#define blockDim (quire::emulator::block_size)
#define gridDim (quire::emulator::grid_size)

using std::isnan;
using std::max;
using std::min;
using std::signbit;

inline void __syncthreads() {
    quire::emulator::block_barrier();
}
inline void __syncwarp() {
    quire::emulator::exchange(0);
}
inline void __threadfence() {}
inline void __threadfence_block() {}

template <class T>
T __shfl_sync(uint32_t, T own, int from) {
    return quire::emulator::shuffle(own, static_cast<uint32_t>(from));
}
template <class T>
T __shfl_xor_sync(uint32_t, T own, int with) {
    return quire::emulator::shuffle(own, quire::emulator::lane() ^ static_cast<uint32_t>(with));
}
template <class T>
T __shfl_up_sync(uint32_t, T own, uint32_t by) {
    const uint32_t lane = quire::emulator::lane();
    return quire::emulator::shuffle(own, lane < by ? lane : lane - by);
}
inline uint32_t __ballot_sync(uint32_t, bool own) {
    const uint64_t* all = quire::emulator::exchange(own);
    uint32_t bits = 0;
    for (int i = 0; i < 32; ++i) bits |= static_cast<uint32_t>(all[i]) << i;
    return bits;
}
inline bool __any_sync(uint32_t, bool own) {
    const uint64_t* all = quire::emulator::exchange(own);
    return std::any_of(all, all + 32, [](uint64_t x) { return x != 0; });
}
inline bool __all_sync(uint32_t mask, bool own) {
    return !__any_sync(mask, !own);
}
inline uint32_t __reduce_max_sync(uint32_t, uint32_t own) {
    const uint64_t* all = quire::emulator::exchange(own);
    return static_cast<uint32_t>(*std::max_element(all, all + 32));
}
inline uint32_t __reduce_or_sync(uint32_t, uint32_t own) {
    const uint64_t* all = quire::emulator::exchange(own);
    return static_cast<uint32_t>(std::accumulate(all, all + 32, uint64_t{0}, std::bit_or<>()));
}

template <class T>
T atomicAdd(T* at, std::type_identity_t<T> more) {
    return std::exchange(*at, *at + more);
}
inline uint32_t atomicOr(uint32_t* at, uint32_t bits) {
    return std::exchange(*at, *at | bits);
}
inline uint32_t atomicAnd(uint32_t* at, uint32_t bits) {
    return std::exchange(*at, *at & bits);
}
inline uint32_t atomicInc(uint32_t* at, uint32_t last) {
    const uint32_t before = *at;
    *at = before >= last ? 0 : before + 1;
    return before;
}
template <class T>
T __ldcs(const T* p) {
    return *p;
}
template <class T>
T __ldcv(const T* p) {
    return *static_cast<const volatile T*>(p);
}
template <class T>
void __stcs(T* p, const T& x) {
    *p = x;
}
template <class T>
T __ldcg(const T* p) {
    return *p;
}
template <class T>
T __ldg(const T* p) {
    return *p;
}

inline float __uint_as_float(uint32_t x) {
    return std::bit_cast<float>(x);
}
inline uint32_t __float_as_uint(float x) {
    return std::bit_cast<uint32_t>(x);
}
inline int32_t __float_as_int(float x) {
    return std::bit_cast<int32_t>(x);
}
inline float __fdiv_rn(float a, float b) {
    return a / b;
}
inline float __frcp_rn(float x) {
    return 1.0f / x;
}
inline float __fsqrt_rn(float x) {
    return std::sqrt(x);
}
inline float __saturatef(float x) {
    return x > 0 ? std::min(x, 1.0f) : 0.0f;
}
inline int __ffs(int x) {
    return __builtin_ffs(x);
}
inline int __popc(uint32_t x) {
    return std::popcount(x);
}
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t n) {
    return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> n % 32);
}
inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t selector) {
    const uint64_t bytes = uint64_t{high} << 32 | low;
    uint32_t out = 0;
    for (int i = 0; i < 4; ++i)
        out |= static_cast<uint32_t>(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
    return out;
}
