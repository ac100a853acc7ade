// Pages of NVFP4 and of vLLM's TurboQuant slots that the GPU encodes are those of the CPU's
// oracles, byte for byte.
#include "kernels/cuda/encode_interop.h"

#include "codec/fp4/fp4.h"
#include "codec/slots/slots.h"
#include "encode_world.h"

namespace quire {
namespace {

using gpu_testing::check_encode;
using gpu_testing::EncodeCase;
using kernels::cuda::EncodeInteropParams;
using kernels::cuda::InteropFormat;
using kernels::cuda::Numbers;

struct Case : EncodeCase {
    InteropFormat format;

    using Params = EncodeInteropParams;
    bool is_fp4() const { return format == InteropFormat::nvfp4; }
    codec::CodecSpec spec() const {
        codec::CodecSpec spec;
        spec.k_bits = format == InteropFormat::turboquant_k8v4      ? 8
                      : format == InteropFormat::turboquant_4bit_nc ? 4
                                                                    : 3;
        spec.v_bits = format == InteropFormat::turboquant_3bit_nc ? 3 : 4;
        return spec;
    }
    codec::Geometry geometry() const {
        codec::Geometry g;
        g.head_dim = static_cast<uint32_t>(head_dim);
        g.block_tokens = static_cast<uint32_t>(block_tokens);
        return g;
    }
    size_t page_bytes() const {
        if (is_fp4()) return 2 * codec::fp4::side_bytes(codec::fp4::Kind::nvfp4, geometry());
        const codec::slots::Shape shape = codec::slots::shape_of(spec(), geometry());
        return size_t{shape.slot_bytes()} * shape.block_tokens;
    }
    std::vector<float> side(std::mt19937_64& rng) const {
        return gpu_testing::scales_of_heads(kv_heads, -12.0f, rng);
    }
    codec::EncodePage job(const float* k_scales, const float* v_scales, size_t head) const {
        codec::EncodePage job;
        job.spec = spec();
        job.geometry = geometry();
        job.sidecar.k_scale = k_scales[head];
        job.sidecar.v_scale = v_scales[head];
        return job;
    }
    uint32_t by_oracle(const codec::EncodePage& job) const {
        return is_fp4() ? codec::fp4::ref_encode(job) : codec::slots::ref_encode(job);
    }
    void complete(Params& p, const float* k_scales, const float* v_scales) const {
        p.format = format;
        p.k.scales = k_scales;
        p.v.scales = v_scales;
    }
    static const char* supports(const Params& p) {
        return kernels::cuda::encode_interop_supports(p);
    }
    static int encode(const Params& p) { return kernels::cuda::encode_interop(p, nullptr); }
    std::string describe() const {
        return EncodeCase::describe() + " format " + std::to_string(static_cast<int>(format));
    }
};

QUIRE_GPU_TEST(encode_interop_nvfp4) {
    uint64_t seed = 31;
    for (const int32_t d : {64, 80, 96, 128, 192, 256})
        for (const Numbers element : {Numbers::f32, Numbers::f16, Numbers::bf16})
            for (const int32_t block : {16, 64})
                check_encode(Case{{d, 3, block, element}, InteropFormat::nvfp4}, ++seed);
}

QUIRE_GPU_TEST(encode_interop_turboquant_slots) {
    uint64_t seed = 41;
    for (const InteropFormat format :
         {InteropFormat::turboquant_k8v4, InteropFormat::turboquant_4bit_nc,
          InteropFormat::turboquant_k3v4_nc, InteropFormat::turboquant_3bit_nc})
        for (const int32_t d : {64, 128, 256})
            for (const Numbers element : {Numbers::f32, Numbers::f16, Numbers::bf16})
                check_encode(Case{{d, 3, 32, element}, format}, ++seed);
}

QUIRE_HOST_TEST(encode_interop_says_why_not) {
    const gpu_testing::EncodeRefusals<Case> refused(
        {{128, 2, 64, Numbers::bf16}, InteropFormat::nvfp4});
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
