// Copies of single threads from device memory to shared memory that go on while the thread does.
#pragma once

#include <cstdint>

#include "kernels/cuda/device_check.cuh"
#include "kernels/cuda/ptx/bulk.cuh"

namespace quire::kernels::cuda {

// 16 bytes to an address of shared memory, and 128 to the second-level cache: what lies beside them
// is asked for soon. REQUIRES: both multiples of 16.
__device__ __forceinline__ void copy_16(uint32_t to, const void* from) {
    QUIRE_DEVICE_CHECK(to % 16 == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0,
                       "a copy of 16 bytes is not aligned to 16");
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;"
                 :
                 : "r"(to), "l"(from)
                 : "memory");
}
// The same without what lies beside them.
__device__ __forceinline__ void copy_16_alone(uint32_t to, const void* from) {
    QUIRE_DEVICE_CHECK(to % 16 == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0,
                       "a copy of 16 bytes is not aligned to 16");
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
}
// 16 bytes; from == nullptr: zeros. REQUIRES: both multiples of 16.
__device__ __forceinline__ void copy_16_or_clear(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(from), "r"(from == nullptr ? 0 : 16)
                 : "memory");
}
// Until the thread's copies so far have landed.
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}
// A thread's copies since the last end of a lot, also none, are one more lot.
__device__ __forceinline__ void end_lot_of_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until of the thread's lots all but the last kLots have landed.
template <int kLots>
__device__ __forceinline__ void wait_for_lots_but() {
    asm volatile("cp.async.wait_group %0;" : : "n"(kLots) : "memory");
}
// Until of the thread's lots all but the last one have landed.
__device__ __forceinline__ void wait_for_lots_but_one() {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
}
// Asks for a line of 128 bytes to come to the second-level cache.
__device__ __forceinline__ void prefetch(const void* line) {
    asm volatile("prefetch.global.L2 [%0];" : : "l"(line));
}
// Arrives once the thread's copies so far have landed.
__device__ __forceinline__ void arrive_after_copies(Barrier* barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];"
                 :
                 : "r"(shared_address(&barrier->state))
                 : "memory");
}

}  // namespace quire::kernels::cuda
