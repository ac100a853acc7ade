// i2c over an ISA vocabulary V.
#pragma once

#include "codec/hot/generic/page.h"
#include "codec/i2c/i2c.h"
#include "codec/i2c/product.h"

namespace quire::codec::i2c::generic {

template <class V>
uint32_t encode_page(const EncodePage& job) {
    const hot::Shape s = shape_of(job.spec, job.geometry);
    const auto one_side = [&](const hot::generic::Side& side, const float* in, size_t stride,
                              const float* mean, const RowMap& map) -> uint32_t {
        if (in == nullptr) return 0;
        alignas(64) float centred[kMaxHeadDim];
        return hot::generic::encode_side<V>(
            job.page, job.first, job.last, s, side, [&](uint32_t t, float* x) {
                const bool turned = map.forward != nullptr;
                hot::generic::take_off<V>(in + t * stride, mean, s.head_dim, turned ? centred : x);
                if (turned) product<V>(centred, map.forward, s.head_dim, x);
            });
    };
    const HeadSidecar& own = job.sidecar;
    return one_side(hot::generic::k_side(s), job.k, job.k_stride, own.k_mean, own.k_map) +
           one_side(hot::generic::v_side(s), job.v, job.v_stride, own.v_mean, own.v_map);
}

template <class V>
void decode_page(const DecodePage& job) {
    const hot::Shape s = shape_of(job.spec, job.geometry);
    const auto one_side = [&](const hot::generic::Side& side, float* out, size_t stride,
                              const float* mean, const RowMap& map) {
        if (out == nullptr) return;
        alignas(64) float turned[kMaxHeadDim];
        const bool turn_back = job.original_space && map.forward != nullptr;
        hot::generic::decode_side<V>(
            job.page, job.first, job.last, s, side, job.original_space,
            [&](uint32_t t) { return turn_back ? turned : out + t * stride; },
            [&](uint32_t t, const float* x) {
                float* to = out + t * stride;
                if (turn_back) product<V>(x, map.back, s.head_dim, to);
                if (job.original_space) hot::generic::put_on<V>(mean, s.head_dim, to);
            });
    };
    const HeadSidecar& own = job.sidecar;
    one_side(hot::generic::k_side(s), job.k, job.k_stride, own.k_mean, own.k_map);
    one_side(hot::generic::v_side(s), job.v, job.v_stride, own.v_mean, own.v_map);
}

}  // namespace quire::codec::i2c::generic
