// Pages of NVFP4 and of vLLM's TurboQuant slots that the GPU encodes are those of the CPU's
// oracles, byte for byte.
#include "kernels/cuda/encode_interop.h"

#include <algorithm>

#include "check.h"
#include "codec/fp4/fp4.h"
#include "codec/slots/slots.h"
#include "device_memory.h"
#include "new_rows.h"

namespace quire {
namespace {

using gpu_testing::DeviceArray;
using gpu_testing::Rows;
using kernels::cuda::EncodeInteropParams;
using kernels::cuda::InteropFormat;
using kernels::cuda::Numbers;

constexpr size_t kBlocks = 5;

struct Case {
    int32_t head_dim, kv_heads, block_tokens;
    InteropFormat format;
    Numbers element;
};

std::string describe(const Case& c) {
    return "D " + std::to_string(c.head_dim) + " block " + std::to_string(c.block_tokens) +
           " format " + std::to_string(static_cast<int>(c.format)) + " element " +
           std::to_string(static_cast<int>(c.element));
}

codec::CodecSpec spec_of(InteropFormat format) {
    codec::CodecSpec spec;
    spec.k_bits = format == InteropFormat::turboquant_k8v4      ? 8
                  : format == InteropFormat::turboquant_4bit_nc ? 4
                                                                : 3;
    spec.v_bits = format == InteropFormat::turboquant_3bit_nc ? 3 : 4;
    return spec;
}

codec::Geometry geometry_of(const Case& c) {
    codec::Geometry g;
    g.head_dim = static_cast<uint32_t>(c.head_dim);
    g.block_tokens = static_cast<uint32_t>(c.block_tokens);
    return g;
}

size_t page_bytes(const Case& c) {
    if (c.format == InteropFormat::nvfp4)
        return 2 * codec::fp4::side_bytes(codec::fp4::Kind::nvfp4, geometry_of(c));
    const codec::slots::Shape shape = codec::slots::shape_of(spec_of(c.format), geometry_of(c));
    return size_t{shape.slot_bytes()} * shape.block_tokens;
}

struct World {
    World(const Case& of, uint64_t seed) : c(of), rng(seed) {
        head_stride = (page_bytes(c) + 63) / 32 * 32;
        block_stride = head_stride * static_cast<size_t>(c.kv_heads) + 64;
        pages.assign(block_stride * kBlocks, std::byte{0});
        for (std::vector<float>* scales : {&k_scales, &v_scales})
            for (int32_t h = 0; h < c.kv_heads; ++h)
                scales->push_back(std::exp2(static_cast<float>(rng() % 1000) * 0.01f - 12.0f));
    }
    uint32_t encode_by_oracle(const Rows& k, const Rows& v) {
        const auto d = static_cast<size_t>(c.head_dim), heads = static_cast<size_t>(c.kv_heads);
        uint32_t not_finite = 0;
        for (size_t i = 0; i < slots.size() * heads; ++i) {
            const int64_t slot = slots[i / heads];
            if (slot < 0) continue;
            codec::EncodePage job;
            job.spec = spec_of(c.format);
            job.geometry = geometry_of(c);
            job.sidecar.k_scale = k_scales[i % heads];
            job.sidecar.v_scale = v_scales[i % heads];
            job.first = static_cast<uint32_t>(slot % c.block_tokens);
            job.last = job.first + 1;
            job.k_stride = job.v_stride = d;
            job.k = k.numbers.data() + i * d - job.first * d;
            job.v = v.numbers.data() + i * d - job.first * d;
            job.page = pages.data() + static_cast<size_t>(slot / c.block_tokens) * block_stride +
                       i % heads * head_stride;
            not_finite += c.format == InteropFormat::nvfp4 ? codec::fp4::ref_encode(job)
                                                           : codec::slots::ref_encode(job);
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

EncodeInteropParams params_of(const World& w, const void* k, const void* v) {
    EncodeInteropParams p;
    const int64_t d = w.c.head_dim;
    p.k = {.rows = k, .token_stride = d * w.c.kv_heads, .head_stride = d};
    p.v = p.k;
    p.v.rows = v;
    p.element = w.c.element;
    p.format = w.c.format;
    p.n_tokens = static_cast<int32_t>(w.slots.size());
    p.kv_heads = w.c.kv_heads;
    p.head_dim = w.c.head_dim;
    p.block_tokens = w.c.block_tokens;
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
        const auto d = static_cast<size_t>(c.head_dim);
        const Rows k = gpu_testing::make_rows(c.element, d, n_rows, w.rng);
        const Rows v = gpu_testing::make_rows(c.element, d, n_rows, w.rng);
        const uint32_t not_finite = w.encode_by_oracle(k, v);
        const DeviceArray<std::byte> dk(k.stored), dv(v.stored);
        const DeviceArray<int64_t> slots(w.slots);
        const DeviceArray<uint32_t> counter(std::vector<uint32_t>{0});
        EncodeInteropParams p = params_of(w, dk.data(), dv.data());
        p.k.scales = k_scales.data();
        p.v.scales = v_scales.data();
        p.slots = slots.data();
        p.pages = pages.data();
        p.not_finite = counter.data();
        const char* why = kernels::cuda::encode_interop_supports(p);
        CHECK(why == nullptr, describe(c) << ": " << why);
        gpu_testing::check_cuda(kernels::cuda::encode_interop(p, nullptr), "encode_interop");
        const std::vector<std::byte> got = pages.read();
        const auto [a, b] = std::mismatch(got.begin(), got.end(), w.pages.begin());
        CHECK(a == got.end(), describe(c) << " seed " << seed << ": byte "
                                          << (a - got.begin()) % static_cast<long>(w.block_stride)
                                          << " of a block is " << static_cast<int>(*a) << ", not "
                                          << static_cast<int>(*b));
        CHECK(counter.read()[0] == not_finite, describe(c) << ": rows that are not finite");
    }
}

QUIRE_GPU_TEST(encode_interop_nvfp4) {
    uint64_t seed = 31;
    for (const int32_t d : {64, 80, 96, 128, 192, 256})
        for (const Numbers element : {Numbers::f32, Numbers::f16, Numbers::bf16})
            for (const int32_t block : {16, 64})
                run_case({d, 3, block, InteropFormat::nvfp4, element}, ++seed);
}

QUIRE_GPU_TEST(encode_interop_turboquant_slots) {
    uint64_t seed = 41;
    for (const InteropFormat format :
         {InteropFormat::turboquant_k8v4, InteropFormat::turboquant_4bit_nc,
          InteropFormat::turboquant_k3v4_nc, InteropFormat::turboquant_3bit_nc})
        for (const int32_t d : {64, 128, 256})
            for (const Numbers element : {Numbers::f32, Numbers::f16, Numbers::bf16})
                run_case({d, 3, 32, format, element}, ++seed);
}

QUIRE_HOST_TEST(encode_interop_says_why_not) {
    World w({128, 2, 64, InteropFormat::nvfp4, Numbers::bf16}, 1);
    w.slots = gpu_testing::choose_slots(kBlocks, 64, w.rng);
    alignas(32) static std::byte rows[64], pages[64];
    alignas(4) static float scales[2];
    EncodeInteropParams good = params_of(w, rows, rows);
    good.slots = w.slots.data();
    good.pages = pages;
    good.k.scales = good.v.scales = scales;
    CHECK(kernels::cuda::encode_interop_supports(good) == nullptr, "a good one");
    const auto refused = [&](auto&& spoil, const char* word) {
        EncodeInteropParams p = good;
        spoil(p);
        const char* why = kernels::cuda::encode_interop_supports(p);
        CHECK(why != nullptr && std::strstr(why, word) != nullptr,
              word << ": " << (why == nullptr ? "accepted" : why));
    };
    refused([](EncodeInteropParams& p) { p.head_dim = 100; }, "head_dim");
    refused([](EncodeInteropParams& p) { p.block_tokens = 8; }, "block_tokens");
    refused([](EncodeInteropParams& p) { p.v.scales = nullptr; }, "scales");
    refused([](EncodeInteropParams& p) { p.pages += 2; }, "aligned");
    refused([](EncodeInteropParams& p) { p.head_stride = 32; }, "overlap");
    refused(
        [](EncodeInteropParams& p) {
            p.format = InteropFormat::turboquant_3bit_nc;
            p.head_dim = 96;
        },
        "64, 128 or 256");
}

}  // namespace
}  // namespace quire
