// Pages of fp8 and raw16 that the GPU encodes are those of the CPU's oracles, byte for byte.
#include "kernels/cuda/encode_floats.h"

#include "codec/raw16/raw16.h"
#include "encode_world.h"

namespace quire {
namespace {

using codec::fp8::Scaling;
using gpu_testing::check_encode;
using gpu_testing::EncodeCase;
using kernels::cuda::EncodeFloatsParams;
using kernels::cuda::Numbers;
using kernels::cuda::PageFloats;

struct Case : EncodeCase {
    PageFloats pages_hold;
    Scaling scaling;

    using Params = EncodeFloatsParams;
    bool is_fp8() const { return pages_hold == PageFloats::e4m3 || pages_hold == PageFloats::e5m2; }
    size_t page_bytes() const {
        const auto numbers = static_cast<size_t>(2 * head_dim * block_tokens);
        const size_t scales = scaling == Scaling::token ? static_cast<size_t>(4 * block_tokens) : 0;
        return numbers * (is_fp8() ? 1 : 2) + scales;
    }
    std::vector<float> side(std::mt19937_64& rng) const {
        return gpu_testing::scales_of_heads(kv_heads, -8.0f, rng);
    }
    codec::EncodePage job(const float* k_scales, const float* v_scales, size_t head) const {
        codec::EncodePage job;
        job.spec.option =
            static_cast<uint16_t>(static_cast<int>(scaling) |
                                  (pages_hold == PageFloats::e5m2 ? codec::fp8::kOptionE5m2 : 0));
        job.geometry = {static_cast<uint32_t>(head_dim), 1, static_cast<uint32_t>(block_tokens),
                        pages_hold == PageFloats::f16 ? Element::f16 : Element::bf16};
        job.sidecar.k_scale = k_scales[head];
        job.sidecar.v_scale = v_scales[head];
        return job;
    }
    uint32_t by_oracle(const codec::EncodePage& job) const {
        return is_fp8() ? codec::fp8::ref_encode(job) : codec::raw16::ref_encode(job);
    }
    void complete(Params& p, const float* k_scales, const float* v_scales) const {
        p.pages_hold = pages_hold;
        p.scaling = scaling;
        p.k.scales = k_scales;
        p.v.scales = v_scales;
    }
    static const char* supports(const Params& p) {
        return kernels::cuda::encode_floats_supports(p);
    }
    static int encode(const Params& p) { return kernels::cuda::encode_floats(p, nullptr); }
    std::string describe() const {
        return EncodeCase::describe() + " format " + std::to_string(static_cast<int>(pages_hold)) +
               " scaling " + std::to_string(static_cast<int>(scaling));
    }
};

QUIRE_GPU_TEST(encode_floats_every_format_and_head_dim) {
    uint64_t seed = 11;
    for (const int32_t d : {64, 80, 96, 128, 192, 256})
        for (const Numbers element : {Numbers::f32, Numbers::f16, Numbers::bf16}) {
            for (const PageFloats format : {PageFloats::e4m3, PageFloats::e5m2})
                for (const Scaling scaling : {Scaling::one, Scaling::head, Scaling::token})
                    check_encode(Case{{d, 2, 64, element}, format, scaling}, ++seed);
            for (const PageFloats format : {PageFloats::f16, PageFloats::bf16})
                check_encode(Case{{d, 2, 64, element}, format, Scaling::one}, ++seed);
        }
}

QUIRE_GPU_TEST(encode_floats_every_block_size_and_any_alignment) {
    uint64_t seed = 5;
    for (const int32_t block : {16, 32, 64, 128})
        for (const int64_t gap : {0, 3, 8})
            for (const PageFloats format : {PageFloats::e4m3, PageFloats::bf16})
                check_encode(Case{{128, 3, block, Numbers::bf16, gap}, format, Scaling::one},
                             ++seed);
}

// So many that a pair of warps takes several, one after another.
QUIRE_GPU_TEST(encode_floats_very_many_heads) {
    check_encode(Case{{64, 801, 64, Numbers::f32}, PageFloats::bf16, Scaling::one}, 4);
}

QUIRE_HOST_TEST(encode_floats_says_why_not) {
    const gpu_testing::EncodeRefusals<Case> refused(
        {{128, 2, 64, Numbers::bf16}, PageFloats::e4m3, Scaling::head});
    refused([](EncodeFloatsParams& p) { p.head_dim = 100; }, "head_dim");
    refused([](EncodeFloatsParams& p) { p.block_tokens = 24; }, "block_tokens");
    refused([](EncodeFloatsParams& p) { p.kv_heads = 0; }, "kv_heads");
    refused([](EncodeFloatsParams& p) { p.k.scales = nullptr; }, "scales");
    refused([](EncodeFloatsParams& p) { p.pages_hold = PageFloats::f16; }, "no scales");
    refused([](EncodeFloatsParams& p) { p.pages += 16; }, "aligned");
    refused([](EncodeFloatsParams& p) { p.head_stride = 4096; }, "overlap");
    refused([](EncodeFloatsParams& p) { p.v.token_stride = 1; }, "strides");
}

}  // namespace
}  // namespace quire
