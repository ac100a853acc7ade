// Pages that the GPU encodes are those of the CPU's oracle, byte for byte.
#include <numeric>

#include "hot_case.h"
#include "kernels/cuda/encode_to_host.h"

namespace quire {
namespace {

using gpu_testing::check_cuda;
using gpu_testing::check_encode;
using gpu_testing::DeviceArray;
using gpu_testing::EncodeWorld;
using gpu_testing::HotCase;
using gpu_testing::Rows;
using kernels::cuda::EncodeParams;
using kernels::cuda::Numbers;

QUIRE_GPU_TEST(encode_every_width_and_head_dim) {
    uint64_t seed = 20261130;
    for (const int32_t d : {64, 80, 96, 128, 192, 256})
        for (int bits = 2; bits <= 8; ++bits)
            for (const Numbers element : {Numbers::f32, Numbers::f16, Numbers::bf16})
                for (const bool mean : {false, true})
                    check_encode(HotCase{{d, 2, 64, element}, bits, 10 - bits, mean}, ++seed);
}

QUIRE_GPU_TEST(encode_every_block_size_and_number_of_heads) {
    uint64_t seed = 7;
    for (const int32_t block : {16, 32, 64, 128})
        for (const int32_t heads : {1, 3, 8, 16})
            for (const bool mean : {false, true})
                check_encode(HotCase{{128, heads, block, Numbers::bf16}, 6, 4, mean}, ++seed);
}

// Enough rows for those that are hard to decide, and for whole windows of tokens.
QUIRE_GPU_TEST(encode_many_rows) {
    uint64_t seed = 99;
    for (int bits = 2; bits <= 8; ++bits)
        check_encode(HotCase{{128, 4, 128, Numbers::bf16}, bits, bits, false}, ++seed, 12);
}

// So many that a pair of warps takes several, one after another.
QUIRE_GPU_TEST(encode_very_many_heads) {
    check_encode(HotCase{{64, 801, 64, Numbers::bf16}, 8, 8, false}, 3, 3);
}

// By chunks, the last one not full.
QUIRE_GPU_TEST(encode_to_host_memory) {
    EncodeWorld<HotCase> w({{128, 3, 32, Numbers::bf16}, 8, 4, false}, 21, 10);
    w.slots.resize(10 * 32 - 7);
    std::iota(w.slots.begin(), w.slots.end(), 0);
    const Rows k = w.make_rows(), v = w.make_rows();
    const DeviceArray<std::byte> pages(w.pages), dk(k.stored), dv(v.stored);
    const DeviceArray<int64_t> slots(w.slots);
    w.encode_by_oracle(k, v);
    kernels::cuda::EncodeToHostParams p;
    p.encode = w.params(dk.data(), dv.data(), pages.data(), slots.data(), nullptr, nullptr);
    p.chunk_blocks = 3;
    void* host = nullptr;
    check_cuda(cudaMallocHost(&host, w.pages.size()), "pinned memory");
    p.host_pages = static_cast<std::byte*>(host);
    kernels::cuda::CopyQueue copies;
    check_cuda(cudaStreamCreateWithFlags(&copies.stream, cudaStreamNonBlocking), "stream");
    check_cuda(cudaEventCreate(&copies.encoded), "event");
    check_cuda(cudaEventCreate(&copies.copied), "event");
    const char* why = kernels::cuda::encode_to_host_supports(p);
    CHECK(why == nullptr, why);
    check_cuda(kernels::cuda::encode_to_host(p, nullptr, copies), "encode_to_host");
    check_cuda(cudaStreamSynchronize(nullptr), "wait");
    const bool alike = std::memcmp(host, w.pages.data(), w.pages.size()) == 0;
    cudaFreeHost(host);
    CHECK(alike, "pages in host memory");
    p.host_pages = nullptr;
    CHECK(kernels::cuda::encode_to_host_supports(p) != nullptr, "no host pages");
}

QUIRE_HOST_TEST(encode_says_why_not) {
    const gpu_testing::EncodeRefusals<HotCase> refused({{128, 2, 64, Numbers::bf16}, 4, 4, false});
    refused([](EncodeParams& p) { p.head_dim = 72; }, "head_dim");
    refused([](EncodeParams& p) { p.block_tokens = 48; }, "block_tokens");
    refused([](EncodeParams& p) { p.k.bits = 9; }, "bits");
    refused([](EncodeParams& p) { p.v.bits = 1; }, "bits");
    refused([](EncodeParams& p) { p.kv_heads = 0; }, "kv_heads");
    refused([](EncodeParams& p) { p.pages += 8; }, "aligned");
    refused([](EncodeParams& p) { p.head_stride = 1024; }, "overlap");
    refused([](EncodeParams& p) { p.k.token_stride = 100; }, "strides");
    refused([&](EncodeParams& p) { p.k.rows = refused.odd_address(); }, "aligned");
    refused([](EncodeParams& p) { p.slots = nullptr; }, "slots");
    refused([](EncodeParams& p) { p.n_tokens = -1; }, "n_tokens");
}

}  // namespace
}  // namespace quire
