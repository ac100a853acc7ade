// tq2.5 over an ISA vocabulary V.
#pragma once

#include "codec/hot/generic/page.h"
#include "codec/split/split.h"

namespace quire::codec::split::generic {

inline constexpr int32_t kInfinity = 0x7f800000;

// K or V of a page.
struct Numbers {
    bool keys;
    size_t stride;
    const float* mean;
    const RowMap* map;
};

[[gnu::always_inline]] inline hot::generic::Side side_of(const Part& part, bool keys) {
    return keys ? hot::generic::k_side(part.shape) : hot::generic::v_side(part.shape);
}

// Returns how many rows held something that is not finite.
template <class V>
uint32_t encode_part(const EncodePage& job, const Part& part, const Numbers& own, const float* in) {
    alignas(64) float centred[kMaxHeadDim];
    uint32_t not_finite = 0;
    hot::generic::encode_side<V>(
        job.page + part.offset, job.first, job.last, part.shape, side_of(part, own.keys),
        [&](uint32_t t, float* x) {
            const uint32_t n = job.geometry.head_dim;
            hot::generic::take_off<V>(in + t * own.stride, own.mean, n, centred);
            const bool finite = hot::generic::largest_bits<V>(centred, n) < kInfinity;
            not_finite += !finite;
            for (uint32_t i = 0; i < part.shape.head_dim; ++i)
                x[i] = finite ? centred[dim_of(*own.map, part.first + i)] : __builtin_nanf("");
        });
    return not_finite;
}

template <class V>
void decode_part(const DecodePage& job, const Part& part, const Numbers& own, float* out) {
    alignas(64) float x[kMaxHeadDim];
    hot::generic::decode_side<V>(
        job.page + part.offset, job.first, job.last, part.shape, side_of(part, own.keys),
        job.original_space,
        [&](uint32_t t) { return job.original_space ? x : out + t * own.stride + part.first; },
        [&](uint32_t t, const float* turned) {
            if (!job.original_space) return;
            float* row = out + t * own.stride;
            for (uint32_t i = 0; i < part.shape.head_dim; ++i) {
                const uint32_t d = dim_of(*own.map, part.first + i);
                row[d] = own.mean != nullptr ? turned[i] + own.mean[d] : turned[i];
            }
        });
}

template <class V>
uint32_t encode_page(const EncodePage& job) {
    const auto one_side = [&](const Numbers& own, const float* in) -> uint32_t {
        if (in == nullptr) return 0;
        encode_part<V>(job, few_part(job.geometry), own, in);
        return encode_part<V>(job, many_part(job.geometry), own, in);
    };
    const HeadSidecar& s = job.sidecar;
    return one_side({true, job.k_stride, s.k_mean, &s.k_map}, job.k) +
           one_side({false, job.v_stride, s.v_mean, &s.v_map}, job.v);
}

template <class V>
void decode_page(const DecodePage& job) {
    const auto one_side = [&](const Numbers& own, float* out) {
        if (out == nullptr) return;
        decode_part<V>(job, many_part(job.geometry), own, out);
        decode_part<V>(job, few_part(job.geometry), own, out);
    };
    const HeadSidecar& s = job.sidecar;
    one_side({true, job.k_stride, s.k_mean, &s.k_map}, job.k);
    one_side({false, job.v_stride, s.v_mean, &s.v_map}, job.v);
}

}  // namespace quire::codec::split::generic
