// Decode of MLA rows: what it multiplies over what the tensor cores do from shared memory alone,
// and what it reads over what device memory gives.
#include <algorithm>
#include <numeric>
#include <random>

#include "codec/mla/rows.h"
#include "device_data.h"
#include "kernels/cuda/mla/mla.h"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace quire::gpu_bench {
namespace {

using kernels::cuda::MlaParams;
using kernels::cuda::MlaRows;

constexpr int kRounds = 4096;

// bf16 numbers of size 1/2 to 2, either sign: scores then differ by some octaves, and weights have
// all their bits.
__global__ void numbers_kernel(uint32_t* data, size_t words) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < words;
         i += size_t{gridDim.x} * blockDim.x)
        data[i] = (data[i] & 0x80ff80ff) | 0x3f003f00;
}
constexpr int32_t kBlockTokens = 64;

size_t block_bytes(MlaRows rows) {
    switch (rows) {
        case MlaRows::bf16:
            return size_t{kBlockTokens} * 1152;
        case MlaRows::v32:
            return size_t{kBlockTokens} * codec::mla::kV32Bytes;
        default:
            return codec::mla::v4_block_bytes(kBlockTokens);
    }
}

// Codes that are not NaN, scales near 2^-8, bf16 numbers, in words of rows of 656 bytes or of
// blocks of 584 bytes a token.
__global__ void codes_kernel(uint32_t* data, size_t words, size_t block_words, bool is_v4) {
    for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < words;
         i += size_t{gridDim.x} * blockDim.x) {
        const size_t in_block = i % block_words;
        const size_t at = in_block % (is_v4 ? 144 : 164);
        if (is_v4 && in_block >= size_t{kBlockTokens} * 144)
            data[i] = 0x77777777;
        else if (at < (is_v4 ? 112 : 128))
            data[i] &= 0xf7f7f7f7;
        else if (!is_v4 && at < 132)
            data[i] = (data[i] & 0x7fffff) | 0x3b800000;
        else
            data[i] = (data[i] & 0x80ff80ff) | 0x3f003f00;
    }
}
void make_codes(const DeviceBuffer& noise, MlaRows rows) {
    codes_kernel<<<1024, 256>>>(noise.as<uint32_t>(), noise.bytes() / sizeof(uint32_t),
                                block_bytes(rows) / sizeof(uint32_t), rows == MlaRows::v4);
    check(cudaGetLastError(), "codes");
}
void make_numbers(const DeviceBuffer& noise) {
    numbers_kernel<<<1024, 256>>>(noise.as<uint32_t>(), noise.bytes() / sizeof(uint32_t));
    check(cudaGetLastError(), "numbers");
}

// Two warpgroups, products of 64 x 256 x 64 on noise in shared memory.
__global__ void __launch_bounds__(256, 1) products_kernel(const uint4* noise, float* out) {
    extern __shared__ __align__(1024) std::byte memory[];
    constexpr int kVectors = 10 * kernels::cuda::kTileBytes / 16;
    for (int i = threadIdx.x; i < kVectors; i += 256)
        reinterpret_cast<uint4*>(memory)[i] = noise[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const int half = threadIdx.x / 128;
    const uint64_t a = kernels::cuda::tile_by_rows(memory + half * kernels::cuda::kTileBytes);
    const uint64_t b =
        kernels::cuda::tiles_by_columns(memory + (2 + 4 * half) * kernels::cuda::kTileBytes);
    float c[128] = {};
    for (int i = 0; i < kRounds; ++i) {
        kernels::cuda::pin(c);
        kernels::cuda::wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; ++step)
            kernels::cuda::wgmma_256(c, a + step * kernels::cuda::kNextK,
                                     b + step * kernels::cuda::kNextRows);
        kernels::cuda::wgmma_commit();
        kernels::cuda::wgmma_wait<0>();
        kernels::cuda::pin(c);
    }
    float sum = 0;
    for (const float x : c) sum += x;
    if (sum == 0.123f) *out = sum;
}

double products_per_s(int32_t multiprocessors) {
    constexpr size_t kShared = 10 * kernels::cuda::kTileBytes;
    check(cudaFuncSetAttribute(products_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(kShared)),
          "shared memory");
    const DeviceBuffer noise(kShared);
    make_numbers(noise);
    const DeviceBuffer out(4);
    const double s = seconds([&] {
        products_kernel<<<multiprocessors, 256, kShared>>>(noise.as<uint4>(), out.as<float>());
        check(cudaGetLastError(), "products");
    });
    return 2.0 * 64 * 256 * 64 * kRounds * 2 * multiprocessors / s;
}

struct Batch {
    std::string name;
    std::vector<int32_t> lengths;
    int32_t n_heads = 128, n_queries = 1;
    MlaRows rows = MlaRows::bf16;
    double bar = 0;
};

std::vector<Batch> batches() {
    std::mt19937_64 rng(20261130);
    std::vector<int32_t> ragged(128);
    for (int32_t& n : ragged) n = static_cast<int32_t>(100 + rng() % 8192);
    return {{"128 x 4k, 128 heads", std::vector<int32_t>(128, 4096), 128, 1, MlaRows::bf16, 560},
            {"64 x 8k, 128 heads", std::vector<int32_t>(64, 8192), 128, 1, MlaRows::bf16, 560},
            {"128 x 100 to 8k, 128 heads", ragged},
            {"128 x 4k, 64 heads", std::vector<int32_t>(128, 4096), 64},
            {"128 x 4k, 16 heads", std::vector<int32_t>(128, 4096), 16},
            {"64 x 4k, 128 heads, 2 queries", std::vector<int32_t>(64, 4096), 128, 2},
            {"1 x 128k, 128 heads", {131'072}},
            {"128 x 4k, 128 heads", std::vector<int32_t>(128, 4096), 128, 1, MlaRows::v32},
            {"128 x 4k, 16 heads", std::vector<int32_t>(128, 4096), 16, 1, MlaRows::v32},
            {"128 x 4k, 128 heads", std::vector<int32_t>(128, 4096), 128, 1, MlaRows::v4}};
}

// Blocks of all requests, in random order.
std::vector<int32_t> make_tables(const Batch& batch, int64_t* stride, int64_t* n_blocks) {
    const int32_t most = *std::max_element(batch.lengths.begin(), batch.lengths.end());
    *stride = (most + kBlockTokens - 1) / kBlockTokens;
    *n_blocks = 0;
    for (const int32_t n : batch.lengths) *n_blocks += (n + kBlockTokens - 1) / kBlockTokens;
    std::vector<int32_t> ids(static_cast<size_t>(*n_blocks));
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937_64(1));
    std::vector<int32_t> tables(batch.lengths.size() * static_cast<size_t>(*stride));
    size_t next = 0;
    for (size_t r = 0; r < batch.lengths.size(); ++r)
        for (int32_t b = 0; b < (batch.lengths[r] + kBlockTokens - 1) / kBlockTokens; ++b)
            tables[r * static_cast<size_t>(*stride) + static_cast<size_t>(b)] = ids[next++];
    return tables;
}

double measure(const Batch& batch) {
    MlaParams p;
    p.n_requests = static_cast<int32_t>(batch.lengths.size());
    p.n_heads = batch.n_heads;
    p.n_queries = batch.n_queries;
    p.block_tokens = kBlockTokens;
    p.scale = 1.0f / 24;
    p.rows = batch.rows;
    p.q_head_stride = kernels::cuda::mla_numbers(p.rows);
    p.q_token_stride = p.q_head_stride * p.n_heads;
    p.out_head_stride = kernels::cuda::kMlaValues;
    p.out_token_stride = p.out_head_stride * p.n_heads;
    p.block_stride = static_cast<int64_t>(block_bytes(batch.rows));
    const DeviceBuffer tables(make_tables(batch, &p.table_stride, &p.n_blocks));
    const DeviceBuffer lengths(batch.lengths);
    const DeviceBuffer pages(static_cast<size_t>(p.n_blocks * p.block_stride));
    batch.rows == MlaRows::bf16 ? make_numbers(pages) : make_codes(pages, batch.rows);
    const auto rows = static_cast<size_t>(p.n_requests * p.n_queries * p.n_heads);
    const DeviceBuffer q(rows * static_cast<size_t>(p.q_head_stride) * 2);
    make_numbers(q);
    const DeviceBuffer out(rows * kernels::cuda::kMlaValues * 2);
    const int32_t workers = kernels::cuda::mla_workers();
    const DeviceBuffer workspace(kernels::cuda::mla_workspace_bytes(p, workers));
    p.q = q.as();
    p.out = out.as();
    p.lengths = lengths.as<int32_t>();
    p.blocks = tables.as<int32_t>();
    p.pages = pages.as();
    p.workspace = workspace.as();
    return seconds([&] { check(kernels::cuda::mla_decode(p, workers, nullptr), "MLA decode"); });
}

}  // namespace

std::vector<Row> mla_rows(const Machine& machine) {
    const double ceiling = products_per_s(machine.multiprocessors);
    std::vector<Row> rows = {{.what = "products of bf16 from shared memory",
                              .unit = "TFLOPS",
                              .measured = ceiling * 1e-12}};
    for (const Batch& batch : batches()) {
        const double s = measure(batch);
        double tokens = 0;
        for (const int32_t n : batch.lengths) tokens += n;
        const std::string name = std::string(batch.rows == MlaRows::bf16  ? "MLA bf16, "
                                             : batch.rows == MlaRows::v32 ? "MLA 656 bytes, "
                                                                          : "MLA 584 bytes, ") +
                                 batch.name;
        const double products =
            2.0 * batch.n_heads * batch.n_queries * tokens *
            (kernels::cuda::mla_numbers(batch.rows) + kernels::cuda::kMlaValues);
        rows.push_back(
            {.what = name, .unit = "TFLOPS", .measured = products / s * 1e-12, .bar = batch.bar});
        rows.push_back({.what = name + ": share of products",
                        .unit = "TFLOPS",
                        .measured = products / s * 1e-12,
                        .reference = ceiling * 1e-12});
        rows.push_back({.what = name + ": read",
                        .unit = "TB/s",
                        .measured = tokens / kBlockTokens *
                                    static_cast<double>(block_bytes(batch.rows)) / s * 1e-12,
                        .reference = machine.read_bytes_per_s * 1e-12});
    }
    return rows;
}

}  // namespace quire::gpu_bench
