// Pages of fp8 and raw16 that the GPU encodes are those of the CPU's oracles, byte for byte.
#include "kernels/cuda/encode_floats.h"

#include <algorithm>

#include "check.h"
#include "codec/raw16/raw16.h"
#include "device_memory.h"
#include "new_rows.h"

namespace quire {
namespace {

using codec::fp8::Scaling;
using gpu_testing::DeviceArray;
using gpu_testing::Rows;
using kernels::cuda::EncodeFloatsParams;
using kernels::cuda::Numbers;
using kernels::cuda::PageFloats;

constexpr size_t kBlocks = 5;

struct Case {
    int32_t head_dim, kv_heads, block_tokens;
    PageFloats pages_hold;
    Scaling scaling;
    Numbers element;
    int64_t gap = 0;  // after every row, in numbers
};

std::string describe(const Case& c) {
    return "D " + std::to_string(c.head_dim) + " block " + std::to_string(c.block_tokens) +
           " format " + std::to_string(static_cast<int>(c.pages_hold)) + " scaling " +
           std::to_string(static_cast<int>(c.scaling)) + " element " +
           std::to_string(static_cast<int>(c.element));
}

bool is_fp8(const Case& c) {
    return c.pages_hold == PageFloats::e4m3 || c.pages_hold == PageFloats::e5m2;
}

size_t page_bytes(const Case& c) {
    const auto numbers = static_cast<size_t>(2 * c.head_dim * c.block_tokens);
    const size_t scales = c.scaling == Scaling::token ? static_cast<size_t>(4 * c.block_tokens) : 0;
    return numbers * (is_fp8(c) ? 1 : 2) + scales;
}

// What the oracle makes of one row of K and one of V.
uint32_t encode_token(const Case& c, const float* k, const float* v, float k_scale, float v_scale,
                      uint32_t token, std::byte* page) {
    codec::EncodePage job;
    job.spec.option =
        static_cast<uint16_t>(static_cast<int>(c.scaling) |
                              (c.pages_hold == PageFloats::e5m2 ? codec::fp8::kOptionE5m2 : 0));
    job.geometry = {static_cast<uint32_t>(c.head_dim), 1, static_cast<uint32_t>(c.block_tokens),
                    c.pages_hold == PageFloats::f16 ? Element::f16 : Element::bf16};
    job.sidecar.k_scale = k_scale;
    job.sidecar.v_scale = v_scale;
    job.k_stride = job.v_stride = static_cast<size_t>(c.head_dim);
    job.k = k - token * job.k_stride;
    job.v = v - token * job.v_stride;
    job.first = token;
    job.last = token + 1;
    job.page = page;
    return is_fp8(c) ? codec::fp8::ref_encode(job) : codec::raw16::ref_encode(job);
}

struct World {
    World(const Case& of, uint64_t seed) : c(of), rng(seed) {
        head_stride = (page_bytes(c) + 63) / 32 * 32;
        block_stride = head_stride * static_cast<size_t>(c.kv_heads) + 64;
        pages.assign(block_stride * kBlocks, std::byte{0});
        for (std::vector<float>* scales : {&k_scales, &v_scales})
            for (int32_t h = 0; h < c.kv_heads; ++h)
                scales->push_back(std::exp2(static_cast<float>(rng() % 1000) * 0.01f - 8.0f));
    }
    uint32_t encode_by_oracle(const Rows& k, const Rows& v) {
        const auto d = static_cast<size_t>(c.head_dim), heads = static_cast<size_t>(c.kv_heads);
        uint32_t not_finite = 0;
        for (size_t i = 0; i < slots.size(); ++i) {
            if (slots[i] < 0) continue;
            const auto block = static_cast<size_t>(slots[i] / c.block_tokens);
            const auto token = static_cast<uint32_t>(slots[i] % c.block_tokens);
            for (size_t h = 0; h < heads; ++h) {
                const size_t row = (i * heads + h) * (d + static_cast<size_t>(c.gap));
                not_finite += encode_token(c, k.numbers.data() + row, v.numbers.data() + row,
                                           k_scales[h], v_scales[h], token,
                                           pages.data() + block * block_stride + h * head_stride);
            }
        }
        return not_finite;
    }
    Case c;
    std::mt19937_64 rng;
    size_t head_stride = 0, block_stride = 0;
    std::vector<std::byte> pages;
    std::vector<float> k_scales, v_scales;
    std::vector<int64_t> slots;
};

EncodeFloatsParams params_of(const World& w, const void* k, const void* v) {
    const Case& c = w.c;
    EncodeFloatsParams p;
    const int64_t row = c.head_dim + c.gap;
    p.k = {.rows = k, .token_stride = row * c.kv_heads, .head_stride = row};
    p.v = {.rows = v, .token_stride = row * c.kv_heads, .head_stride = row};
    p.element = c.element;
    p.pages_hold = c.pages_hold;
    p.scaling = c.scaling;
    p.n_tokens = static_cast<int32_t>(w.slots.size());
    p.kv_heads = c.kv_heads;
    p.head_dim = c.head_dim;
    p.block_tokens = c.block_tokens;
    p.n_blocks = kBlocks;
    p.block_stride = static_cast<int64_t>(w.block_stride);
    p.head_stride = static_cast<int64_t>(w.head_stride);
    return p;
}

void run_case(const Case& c, uint64_t seed) {
    World w(c, seed);
    const DeviceArray<std::byte> pages(w.pages);
    const DeviceArray<float> k_scales(w.k_scales), v_scales(w.v_scales);
    for (int batch = 0; batch < 2; ++batch) {
        w.slots = gpu_testing::choose_slots(kBlocks, c.block_tokens, w.rng);
        const size_t n_rows = w.slots.size() * static_cast<size_t>(c.kv_heads);
        const auto d = static_cast<size_t>(c.head_dim + c.gap);
        const Rows k = gpu_testing::make_rows(c.element, d, n_rows, w.rng);
        const Rows v = gpu_testing::make_rows(c.element, d, n_rows, w.rng);
        const uint32_t not_finite = w.encode_by_oracle(k, v);
        const DeviceArray<std::byte> dk(k.stored), dv(v.stored);
        const DeviceArray<int64_t> slots(w.slots);
        const DeviceArray<uint32_t> counter(std::vector<uint32_t>{0});
        EncodeFloatsParams p = params_of(w, dk.data(), dv.data());
        p.k.scales = k_scales.data();
        p.v.scales = v_scales.data();
        p.slots = slots.data();
        p.pages = pages.data();
        p.not_finite = counter.data();
        const char* why = kernels::cuda::encode_floats_supports(p);
        CHECK(why == nullptr, describe(c) << ": " << why);
        gpu_testing::check_cuda(kernels::cuda::encode_floats(p, nullptr), "encode_floats");
        const std::vector<std::byte> got = pages.read();
        const auto [a, b] = std::mismatch(got.begin(), got.end(), w.pages.begin());
        CHECK(a == got.end(), describe(c) << " seed " << seed << ": byte "
                                          << (a - got.begin()) % static_cast<long>(w.block_stride)
                                          << " of a block is " << static_cast<int>(*a) << ", not "
                                          << static_cast<int>(*b));
        CHECK(counter.read()[0] == not_finite, describe(c) << ": rows that are not finite");
    }
}

QUIRE_GPU_TEST(encode_floats_every_format_and_head_dim) {
    uint64_t seed = 11;
    for (const int32_t d : {64, 80, 96, 128, 192, 256})
        for (const Numbers element : {Numbers::f32, Numbers::f16, Numbers::bf16}) {
            for (const PageFloats format : {PageFloats::e4m3, PageFloats::e5m2})
                for (const Scaling scaling : {Scaling::one, Scaling::head, Scaling::token})
                    run_case({d, 2, 64, format, scaling, element}, ++seed);
            for (const PageFloats format : {PageFloats::f16, PageFloats::bf16})
                run_case({d, 2, 64, format, Scaling::one, element}, ++seed);
        }
}

QUIRE_GPU_TEST(encode_floats_every_block_size_and_any_alignment) {
    uint64_t seed = 5;
    for (const int32_t block : {16, 32, 64, 128})
        for (const int64_t gap : {0, 3, 8})
            for (const PageFloats format : {PageFloats::e4m3, PageFloats::bf16})
                run_case({128, 3, block, format, Scaling::one, Numbers::bf16, gap}, ++seed);
}

// So many that a pair of warps takes several, one after another.
QUIRE_GPU_TEST(encode_floats_very_many_heads) {
    run_case({64, 801, 64, PageFloats::bf16, Scaling::one, Numbers::f32}, 4);
}

QUIRE_HOST_TEST(encode_floats_says_why_not) {
    World w({128, 2, 64, PageFloats::e4m3, Scaling::head, Numbers::bf16}, 1);
    w.slots = gpu_testing::choose_slots(kBlocks, 64, w.rng);
    alignas(32) static std::byte rows[64], pages[64];
    alignas(4) static float scales[2];
    EncodeFloatsParams good = params_of(w, rows, rows);
    good.slots = w.slots.data();
    good.pages = pages;
    good.k.scales = good.v.scales = scales;
    CHECK(kernels::cuda::encode_floats_supports(good) == nullptr, "a good one");
    const auto refused = [&](auto&& spoil, const char* word) {
        EncodeFloatsParams p = good;
        spoil(p);
        const char* why = kernels::cuda::encode_floats_supports(p);
        CHECK(why != nullptr && std::strstr(why, word) != nullptr,
              word << ": " << (why == nullptr ? "accepted" : why));
    };
    refused([](EncodeFloatsParams& p) { p.head_dim = 100; }, "head_dim");
    refused([](EncodeFloatsParams& p) { p.block_tokens = 24; }, "block_tokens");
    refused([](EncodeFloatsParams& p) { p.kv_heads = 0; }, "kv_heads");
    refused([](EncodeFloatsParams& p) { p.k.scales = nullptr; }, "scales");
    refused([](EncodeFloatsParams& p) { p.pages_hold = PageFloats::f16; }, "no scales");
    refused([](EncodeFloatsParams& p) { p.pages += 16; }, "aligned");
    refused([](EncodeFloatsParams& p) { p.head_stride = 4096; }, "overlap");
    refused([](EncodeFloatsParams& p) { p.v.token_stride = 1; }, "strides");
    EncodeFloatsParams empty = good;
    empty.n_tokens = 0;
    empty.pages = nullptr;
    CHECK(kernels::cuda::encode_floats_supports(empty) == nullptr, "an empty batch");
    CHECK(kernels::cuda::encode_floats(empty, nullptr) == 0, "nothing to do needs no GPU");
}

}  // namespace
}  // namespace quire
