// The hot family for encode_world.h: widths, and means that are taken off or not.
#pragma once

#include "codec/hot/hot.h"
#include "encode_world.h"

namespace quire::gpu_testing {

struct HotCase : EncodeCase {
    int k_bits, v_bits;
    bool mean;

    using Params = kernels::cuda::EncodeParams;
    codec::hot::Shape shape() const {
        return {k_bits, v_bits, static_cast<uint32_t>(head_dim),
                static_cast<uint32_t>(block_tokens)};
    }
    size_t page_bytes() const { return codec::hot::page_bytes(shape()); }
    std::vector<float> side(std::mt19937_64& rng) const {
        std::vector<float> means(static_cast<size_t>(kv_heads * head_dim));
        for (float& m : means) m = std::normal_distribution<float>(0.0f, 0.3f)(rng);
        return means;
    }
    codec::EncodePage job(const float* k_means, const float* v_means, size_t head) const {
        codec::EncodePage job;
        job.spec = {3, static_cast<uint8_t>(k_bits), static_cast<uint8_t>(v_bits), 0, 1};
        job.geometry = {shape().head_dim, 1, shape().tokens, Element::f16};
        if (!mean) return job;
        job.sidecar.k_mean = k_means + head * shape().head_dim;
        job.sidecar.v_mean = v_means + head * shape().head_dim;
        return job;
    }
    static uint32_t by_oracle(const codec::EncodePage& job) { return codec::hot::ref_encode(job); }
    void complete(Params& p, const float* k_means, const float* v_means) const {
        p.k.bits = k_bits;
        p.v.bits = v_bits;
        if (mean) p.k.mean = k_means, p.v.mean = v_means;
    }
    static const char* supports(const Params& p) { return kernels::cuda::encode_supports(p); }
    static int encode(const Params& p) { return kernels::cuda::encode(p, nullptr); }
    std::string describe() const {
        return EncodeCase::describe() + " k" + std::to_string(k_bits) + "v" +
               std::to_string(v_bits);
    }
};

}  // namespace quire::gpu_testing
