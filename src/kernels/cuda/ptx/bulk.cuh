// Bulk copies from device memory to shared memory, and the barriers in shared memory that say when
// they have landed.
#pragma once

#include <cstdint>

namespace quire::kernels::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// A barrier for one phase after another: a phase ends when everybody has arrived and every byte
// that was announced has landed. Lives in shared memory, at a multiple of 8 bytes.
struct Barrier {
    uint64_t state;

    // One thread, before any other uses it; then fence_barriers() and a barrier of the block or of
    // the warp.
    __device__ __forceinline__ void init(uint32_t arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                     :
                     : "r"(shared_address(&state)), "r"(arrivals)
                     : "memory");
    }
    __device__ __forceinline__ void arrive() {
        asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];"
                     :
                     : "r"(shared_address(&state))
                     : "memory");
    }
    // Arrives, and announces bytes that copies will bring in this phase.
    __device__ __forceinline__ void arrive_expecting(uint32_t bytes) {
        asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;"
                     :
                     : "r"(shared_address(&state)), "r"(bytes)
                     : "memory");
    }
    // Until the phase of this parity has ended; the first phase has parity 0. What copies of the
    // phase brought, and what threads wrote before they arrived, is seen afterwards.
    __device__ __forceinline__ void wait(uint32_t parity) {
        asm volatile(
            "{\n"
            ".reg .pred done;\n"
            "again:\n"
            "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
            "@done bra over;\n"
            "bra again;\n"
            "over:\n"
            "}"
            :
            : "r"(shared_address(&state)), "r"(parity)
            : "memory");
    }
};

// After init(): copies see the barriers too.
__device__ __forceinline__ void fence_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// What is read once: the lines need not stay in the second-level cache.
__device__ __forceinline__ uint64_t evict_first_policy() {
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// One thread: `bytes` from device memory to shared memory. REQUIRES: all three multiples of 16.
__device__ __forceinline__ void bulk_copy(void* to, const void* from, uint32_t bytes,
                                          Barrier* barrier, uint64_t policy) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
        "[%1], %2, [%3], %4;"
        :
        : "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(&barrier->state)),
          "l"(policy)
        : "memory");
}

}  // namespace quire::kernels::cuda
