// Pages that the GPU encodes are those of the CPU's oracle, byte for byte.
#include <algorithm>
#include <numeric>

#include "check.h"
#include "codec/hot/hot.h"
#include "device_memory.h"
#include "kernels/cuda/encode_to_host.h"
#include "new_rows.h"

namespace quire {
namespace {

using codec::CodecSpec;
using codec::Geometry;
using gpu_testing::DeviceArray;
using gpu_testing::Rows;
using kernels::cuda::EncodeParams;
using kernels::cuda::Numbers;

struct Case {
    int32_t head_dim, kv_heads, block_tokens;
    int k_bits, v_bits;
    Numbers element;
    bool mean;
};

std::string describe(const Case& c) {
    return "D " + std::to_string(c.head_dim) + " heads " + std::to_string(c.kv_heads) + " block " +
           std::to_string(c.block_tokens) + " k" + std::to_string(c.k_bits) + "v" +
           std::to_string(c.v_bits) + " element " + std::to_string(static_cast<int>(c.element));
}

struct World {
    World(const Case& of, uint64_t seed, size_t blocks = 5) : c(of), rng(seed), n_blocks(blocks) {
        const codec::hot::Shape shape = {c.k_bits, c.v_bits, static_cast<uint32_t>(c.head_dim),
                                         static_cast<uint32_t>(c.block_tokens)};
        page_bytes = codec::hot::page_bytes(shape) + 32;  // a gap that must stay as it is
        block_stride = page_bytes * static_cast<size_t>(c.kv_heads) + 64;
        pages.assign(block_stride * n_blocks, std::byte{0});
        for (std::vector<float>* mean : {&k_mean, &v_mean}) {
            mean->resize(static_cast<size_t>(c.kv_heads * c.head_dim));
            for (float& m : *mean) m = std::normal_distribution<float>(0.0f, 0.3f)(rng);
        }
    }

    void choose_slots() { slots = gpu_testing::choose_slots(n_blocks, c.block_tokens, rng); }

    uint32_t encode_by_oracle(const Rows& k, const Rows& v) {
        const CodecSpec spec = {3, static_cast<uint8_t>(c.k_bits), static_cast<uint8_t>(c.v_bits),
                                0, 1};
        const Geometry geometry = {static_cast<uint32_t>(c.head_dim), 1,
                                   static_cast<uint32_t>(c.block_tokens), Element::f16};
        uint32_t not_finite = 0;
        const auto d = static_cast<size_t>(c.head_dim), heads = static_cast<size_t>(c.kv_heads);
        for (size_t i = 0; i < slots.size(); ++i) {
            if (slots[i] < 0) continue;
            const auto block = static_cast<size_t>(slots[i] / c.block_tokens);
            const auto token = static_cast<uint32_t>(slots[i] % c.block_tokens);
            for (size_t h = 0; h < heads; ++h) {
                codec::EncodePage job;
                job.spec = spec;
                job.geometry = geometry;
                if (c.mean) {
                    job.sidecar.k_mean = k_mean.data() + h * d;
                    job.sidecar.v_mean = v_mean.data() + h * d;
                }
                job.k = k.numbers.data() + (i * heads + h) * d - token * d;
                job.v = v.numbers.data() + (i * heads + h) * d - token * d;
                job.k_stride = job.v_stride = d;
                job.first = token;
                job.last = token + 1;
                job.page = pages.data() + block * block_stride + h * page_bytes;
                not_finite += codec::hot::ref_encode(job);
            }
        }
        return not_finite;
    }

    Case c;
    std::mt19937_64 rng;
    size_t n_blocks;
    size_t page_bytes = 0, block_stride = 0;
    std::vector<std::byte> pages;
    std::vector<float> k_mean, v_mean;
    std::vector<int64_t> slots;
};

EncodeParams params_of(const World& w, const void* k, const void* v, std::byte* pages) {
    EncodeParams p;
    const int64_t d = w.c.head_dim;
    p.k = {.rows = k, .token_stride = d * w.c.kv_heads, .head_stride = d, .bits = w.c.k_bits};
    p.v = {.rows = v, .token_stride = d * w.c.kv_heads, .head_stride = d, .bits = w.c.v_bits};
    p.element = w.c.element;
    p.n_tokens = static_cast<int32_t>(w.slots.size());
    p.kv_heads = w.c.kv_heads;
    p.head_dim = w.c.head_dim;
    p.block_tokens = w.c.block_tokens;
    p.slots = w.slots.data();
    p.pages = pages;
    p.n_blocks = static_cast<int64_t>(w.n_blocks);
    p.block_stride = static_cast<int64_t>(w.block_stride);
    p.head_stride = static_cast<int64_t>(w.page_bytes);
    return p;
}

// Two batches, so that the second one meets codes that must stay.
void run_case(const Case& c, uint64_t seed, size_t n_blocks = 5) {
    World w(c, seed, n_blocks);
    const DeviceArray<std::byte> pages(w.pages);
    const DeviceArray<float> k_mean(w.k_mean), v_mean(w.v_mean);
    for (int batch = 0; batch < 2; ++batch) {
        w.choose_slots();
        const size_t n_rows = w.slots.size() * static_cast<size_t>(c.kv_heads);
        const auto d = static_cast<size_t>(c.head_dim);
        const Rows k = gpu_testing::make_rows(c.element, d, n_rows, w.rng);
        const Rows v = gpu_testing::make_rows(c.element, d, n_rows, w.rng);
        const uint32_t not_finite = w.encode_by_oracle(k, v);
        const DeviceArray<std::byte> dk(k.stored), dv(v.stored);
        const DeviceArray<int64_t> slots(w.slots);
        const DeviceArray<uint32_t> counter(std::vector<uint32_t>{0});
        EncodeParams p = params_of(w, dk.data(), dv.data(), pages.data());
        p.slots = slots.data();
        p.not_finite = counter.data();
        if (c.mean) p.k.mean = k_mean.data(), p.v.mean = v_mean.data();
        const char* why = kernels::cuda::encode_supports(p);
        CHECK(why == nullptr, describe(c) << ": " << why);
        gpu_testing::check_cuda(kernels::cuda::encode(p, nullptr), "encode");
        const std::vector<std::byte> got = pages.read();
        const auto [a, b] = std::mismatch(got.begin(), got.end(), w.pages.begin());
        CHECK(a == got.end(), describe(c) << " seed " << seed << " batch " << batch << ": byte "
                                          << (a - got.begin()) % static_cast<long>(w.block_stride)
                                          << " of a block is " << static_cast<int>(*a) << ", not "
                                          << static_cast<int>(*b));
        CHECK(counter.read()[0] == not_finite, describe(c) << ": rows that are not finite");
    }
}

QUIRE_GPU_TEST(encode_every_width_and_head_dim) {
    uint64_t seed = 20261130;
    for (const int32_t d : {64, 80, 96, 128, 192, 256})
        for (int bits = 2; bits <= 8; ++bits)
            for (const Numbers element : {Numbers::f32, Numbers::f16, Numbers::bf16})
                for (const bool mean : {false, true})
                    run_case({d, 2, 64, bits, 10 - bits, element, mean}, ++seed);
}

QUIRE_GPU_TEST(encode_every_block_size_and_number_of_heads) {
    uint64_t seed = 7;
    for (const int32_t block : {16, 32, 64, 128})
        for (const int32_t heads : {1, 3, 8, 16})
            for (const bool mean : {false, true})
                run_case({128, heads, block, 6, 4, Numbers::bf16, mean}, ++seed);
}

// Enough rows for those that are hard to decide, and for whole windows of tokens.
QUIRE_GPU_TEST(encode_many_rows) {
    uint64_t seed = 99;
    for (int bits = 2; bits <= 8; ++bits)
        run_case({128, 4, 128, bits, bits, Numbers::bf16, false}, ++seed, 12);
}

// So many that a pair of warps takes several, one after another.
QUIRE_GPU_TEST(encode_very_many_heads) {
    run_case({64, 801, 64, 8, 8, Numbers::bf16, false}, 3);
}

// By chunks, the last one not full.
QUIRE_GPU_TEST(encode_to_host_memory) {
    using gpu_testing::check_cuda;
    World w({128, 3, 32, 8, 4, Numbers::bf16, false}, 21, 10);
    w.slots.resize(10 * 32 - 7);
    std::iota(w.slots.begin(), w.slots.end(), 0);
    const size_t n_rows = w.slots.size() * 3;
    const Rows k = gpu_testing::make_rows(Numbers::bf16, 128, n_rows, w.rng);
    const Rows v = gpu_testing::make_rows(Numbers::bf16, 128, n_rows, w.rng);
    const DeviceArray<std::byte> pages(w.pages), dk(k.stored), dv(v.stored);
    const DeviceArray<int64_t> slots(w.slots);
    w.encode_by_oracle(k, v);
    kernels::cuda::EncodeToHostParams p;
    p.encode = params_of(w, dk.data(), dv.data(), pages.data());
    p.encode.slots = slots.data();
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
    World w({128, 2, 64, 4, 4, Numbers::bf16, false}, 1);
    w.choose_slots();
    alignas(32) static std::byte rows[64], pages[64];
    const EncodeParams good = params_of(w, rows, rows, pages);
    CHECK(kernels::cuda::encode_supports(good) == nullptr, "a good one");
    const auto refused = [&](auto&& spoil, const char* word) {
        EncodeParams p = good;
        spoil(p);
        const char* why = kernels::cuda::encode_supports(p);
        CHECK(why != nullptr && std::strstr(why, word) != nullptr,
              word << ": " << (why == nullptr ? "accepted" : why));
    };
    refused([](EncodeParams& p) { p.head_dim = 72; }, "head_dim");
    refused([](EncodeParams& p) { p.block_tokens = 48; }, "block_tokens");
    refused([](EncodeParams& p) { p.k.bits = 9; }, "bits");
    refused([](EncodeParams& p) { p.v.bits = 1; }, "bits");
    refused([](EncodeParams& p) { p.kv_heads = 0; }, "kv_heads");
    refused([](EncodeParams& p) { p.pages += 8; }, "aligned");
    refused([](EncodeParams& p) { p.head_stride = 1024; }, "overlap");
    refused([](EncodeParams& p) { p.k.token_stride = 100; }, "strides");
    refused([](EncodeParams& p) { p.k.rows = rows + 1; }, "aligned");
    refused([](EncodeParams& p) { p.slots = nullptr; }, "slots");
    refused([](EncodeParams& p) { p.n_tokens = -1; }, "n_tokens");
    EncodeParams empty = good;
    empty.n_tokens = 0;
    empty.slots = nullptr;
    CHECK(kernels::cuda::encode_supports(empty) == nullptr, "an empty batch");
    CHECK(kernels::cuda::encode(empty, nullptr) == 0, "nothing to do needs no GPU");
}

}  // namespace
}  // namespace quire
