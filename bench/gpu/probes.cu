// What one multiprocessor can do of the things that decode kernels are made of: a table of rates, a
// row a probe, on random data in registers and shared memory. Rates are per clock and
// multiprocessor, from events and the clock that the driver reports.
//
// Usage: probes
#include <cstdio>

#include <cuda_runtime.h>

#include "bench/gpu/rows.h"
#include "kernels/cuda/ptx/bulk.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace quire::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRounds = 4096;

__device__ __forceinline__ uint32_t mix(uint32_t x) {
    return x * 2654435761u + 12345u;
}

struct MmaF16 {
    static constexpr const char* kName = "mma m16n8k16 f16, fused multiply-adds";
    static constexpr double kPerRound = 8.0 * 16 * 8 * 16 / 32;  // of one thread
    static __device__ uint32_t run(uint32_t seed) {
        float c[8][4] = {};
        uint32_t a[4] = {seed & 0x3bff3bff, mix(seed) & 0x3bff3bff, seed >> 3 & 0x3bff3bff, 0x3c00};
        const uint32_t b[2] = {0x3c003800, 0x38003c00};
        for (int i = 0; i < kRounds; ++i) {
#pragma unroll
            for (int j = 0; j < 8; ++j) mma_f16(c[j], a, b);
            a[0] ^= i;
        }
        float sum = 0;
        for (auto& row : c) sum += row[0] + row[1] + row[2] + row[3];
        return __float_as_uint(sum);
    }
};

struct MmaU8 {
    static constexpr const char* kName = "mma m16n8k32 u8 x s8, fused multiply-adds";
    static constexpr double kPerRound = 8.0 * 16 * 8 * 32 / 32;
    static __device__ uint32_t run(uint32_t seed) {
        int32_t c[8][4] = {};
        uint32_t a[4] = {seed, mix(seed), seed >> 3, seed << 5};
        const uint32_t b[2] = {0x01020304, 0x05060708};
        for (int i = 0; i < kRounds; ++i) {
#pragma unroll
            for (int j = 0; j < 8; ++j) mma_u8s8(c[j], a, b);
            a[0] ^= i;
        }
        uint32_t sum = 0;
        for (auto& row : c) sum += row[0] + row[1] + row[2] + row[3];
        return sum;
    }
};

// 16-entry table of bytes, four codes at a time, by two byte permutations.
struct LutPermute {
    static constexpr const char* kName = "4-bit codes to bytes by prmt, codes";
    static constexpr double kPerRound = 32;
    static __device__ uint32_t run(uint32_t seed) {
        uint32_t sum = 0, w = seed;
        for (int i = 0; i < kRounds; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const uint32_t flipped = w ^ 0x88888888;
                sum ^= __byte_perm(0x10203040, 0x50607008, w) |
                       __byte_perm(0x01020304, 0x05060718, flipped);
                sum ^= __byte_perm(0x10203040, 0x50607008, w >> 16) |
                       __byte_perm(0x01020304, 0x05060718, flipped >> 16);
                w += 0x13579bdf;
            }
        }
        return sum;
    }
};

// A byte of two codes to two f16 numbers, from a table of 256 words of each lane's own bank.
struct LutShared {
    static constexpr const char* kName = "4-bit codes to f16 by a table in shared memory, codes";
    static constexpr double kPerRound = 32;
    static __device__ uint32_t run(uint32_t seed) {
        extern __shared__ uint32_t table[];
        const uint32_t lane = threadIdx.x % 32;
        for (uint32_t i = threadIdx.x; i < 256 * 32; i += kThreads) table[i] = mix(i);
        __syncthreads();
        uint32_t sum = 0, w = seed;
        for (int i = 0; i < kRounds; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
#pragma unroll
                for (int b = 0; b < 4; ++b) sum ^= table[(w >> (8 * b) & 0xff) * 32 + lane];
                w += 0x13579bdf;
            }
        }
        return sum;
    }
};

// Integers of 4 bits to f16 by the exponent trick: a mask and a constant.
struct Magic {
    static constexpr const char* kName = "4-bit integers to f16 by prmt and lop3, codes";
    static constexpr double kPerRound = 32;
    static __device__ uint32_t run(uint32_t seed) {
        uint32_t sum = 0, w = seed;
        for (int i = 0; i < kRounds; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
#pragma unroll
                for (uint32_t b = 0; b < 4; ++b)
                    sum += (__byte_perm(w, 0, 0x4040 + b * 0x0101) & 0x00f0000f) | 0x64006400;
                w += 0x13579bdf;
            }
        }
        return sum;
    }
};

template <class Probe>
__global__ void __launch_bounds__(kThreads) run_probe(uint32_t* out) {
    const uint32_t got = Probe::run(mix(blockIdx.x * kThreads + threadIdx.x));
    if (got == 0x12345678) *out = got;
}

using gpu_bench::check;
using gpu_bench::seconds;

struct Device {
    int multiprocessors = 0;
    double clock_hz = 0;
    uint32_t* out = nullptr;
};

template <class Probe>
void report(const Device& m, int blocks_each, size_t shared_bytes) {
    check(cudaFuncSetAttribute(run_probe<Probe>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "shared memory");
    const int blocks = m.multiprocessors * blocks_each;
    const double s = seconds([&] { run_probe<Probe><<<blocks, kThreads, shared_bytes>>>(m.out); });
    const double per_clock = Probe::kPerRound * kRounds * kThreads * blocks_each / s / m.clock_hz;
    std::printf("%-62s %10.1f a clock\n", Probe::kName, per_clock);
}

// Every warp reads pieces into a ring of its own by bulk copies.
__global__ void __launch_bounds__(kThreads)
    read_ring(const std::byte* from, int64_t pieces, uint32_t piece_bytes, int stages,
              uint32_t* out) {
    extern __shared__ __align__(128) std::byte memory[];
    constexpr int kWarps = kThreads / 32;
    __shared__ Barrier barriers[kWarps][16];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    std::byte* ring = memory + size_t{piece_bytes} * stages * warp;
    const int64_t first = blockIdx.x * kWarps + warp, stride = int64_t{gridDim.x} * kWarps;
    const uint64_t policy = evict_first_policy();
    const auto start = [&](int64_t i, int stage) {
        const int64_t piece = first + i * stride;
        if (piece >= pieces) return;
        barriers[warp][stage].arrive_expecting(piece_bytes);
        bulk_copy(ring + size_t{piece_bytes} * stage, from + piece * piece_bytes, piece_bytes,
                  &barriers[warp][stage], policy);
    };
    if (lane == 0) {
        for (int s = 0; s < stages; ++s) barriers[warp][s].init(1);
        fence_barriers();
        for (int s = 0; s < stages; ++s) start(s, s);
    }
    __syncwarp();
    uint32_t sum = 0;
    for (int64_t i = 0; first + i * stride < pieces; ++i) {
        const int stage = static_cast<int>(i % stages);
        barriers[warp][stage].wait(static_cast<uint32_t>(i / stages) & 1);
        const auto* words = reinterpret_cast<const uint4*>(ring + size_t{piece_bytes} * stage);
        for (uint32_t w = lane; w < piece_bytes / 16; w += 32) {
            const uint4 x = words[w];
            sum ^= x.x ^ x.y ^ x.z ^ x.w;
        }
        __syncwarp();
        if (lane == 0) start(i + stages, stage);
    }
    if (sum == 0x12345678) *out = sum;
}

void report_rings(const Device& m) {
    constexpr size_t kBytes = size_t{4} << 30;
    std::byte* from = nullptr;
    check(cudaMalloc(&from, kBytes), "4 GiB");
    check(cudaMemset(from, 0x5a, kBytes), "fill");
    for (const uint32_t piece : {1024u, 2048u, 4096u, 8320u}) {
        for (const int stages : {2, 3, 4, 8}) {
            const size_t shared = size_t{piece} * stages * (kThreads / 32);
            if (shared > 220 * 1024) continue;
            check(cudaFuncSetAttribute(read_ring, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       static_cast<int>(shared)),
                  "shared memory");
            int per_sm = 0;
            check(
                cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, read_ring, kThreads, shared),
                "occupancy");
            const auto pieces = static_cast<int64_t>(kBytes / piece);
            const double s = seconds([&] {
                read_ring<<<m.multiprocessors * per_sm, kThreads, shared>>>(from, pieces, piece,
                                                                            stages, m.out);
            });
            std::printf(
                "read by bulk copies of %5u bytes, %d stages a warp, %d blocks each "
                "%11.3f TB/s\n",
                piece, stages, per_sm, static_cast<double>(pieces) * piece / s * 1e-12);
        }
    }
    check(cudaFree(from), "free");
}

int run() {
    Device m;
    int khz = 0;
    check(cudaDeviceGetAttribute(&m.multiprocessors, cudaDevAttrMultiProcessorCount, 0), "device");
    check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0), "clock");
    m.clock_hz = khz * 1e3;
    check(cudaMalloc(&m.out, 4), "memory");
    std::printf("%d multiprocessors at up to %.3f GHz; rates of one multiprocessor\n",
                m.multiprocessors, m.clock_hz * 1e-9);
    report<MmaF16>(m, 4, 0);
    report<MmaU8>(m, 4, 0);
    report<LutPermute>(m, 8, 0);
    report<LutShared>(m, 6, 32 * 1024);
    report<Magic>(m, 8, 0);
    report_rings(m);
    return 0;
}

}  // namespace
}  // namespace quire::kernels::cuda

int main() {
    return quire::kernels::cuda::run();
}
