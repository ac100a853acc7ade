// The oracle of i2c; README.md says the same in words.
#include <algorithm>
#include <array>

#include "codec/hot/ref_side.h"
#include "codec/i2c/i2c.h"
#include "codec/i2c/ref_product.h"

namespace quire::codec::i2c {
namespace {

using Row = std::array<float, kMaxHeadDim>;

Row product(const Row& x, const float* matrix, uint32_t n) {
    Row out;
    ref_product(x.data(), matrix, n, out.data());
    return out;
}

uint32_t encode_side(const EncodePage& job, const hot::RefSide& side, const float* in,
                     size_t stride, const float* mean, const RowMap& map) {
    if (in == nullptr) return 0;
    const hot::Shape s = shape_of(job.spec, job.geometry);
    uint32_t not_finite = 0;
    for (uint32_t t = job.first; t < job.last; ++t) {
        Row x;
        for (uint32_t d = 0; d < s.head_dim; ++d)
            x[d] = mean != nullptr ? in[t * stride + d] - mean[d] : in[t * stride + d];
        if (map.forward != nullptr) x = product(x, map.forward, s.head_dim);
        not_finite += !hot::ref_encode_token(s, side, t, x.data(), job.page);
    }
    return not_finite;
}

void decode_side(const DecodePage& job, const hot::RefSide& side, float* out, size_t stride,
                 const float* mean, const RowMap& map) {
    if (out == nullptr) return;
    const hot::Shape s = shape_of(job.spec, job.geometry);
    for (uint32_t t = job.first; t < job.last; ++t) {
        Row x;
        hot::ref_decode_token(s, side, t, job.page, job.original_space, x.data());
        if (job.original_space && map.forward != nullptr) x = product(x, map.back, s.head_dim);
        for (uint32_t d = 0; job.original_space && mean != nullptr && d < s.head_dim; ++d)
            x[d] = x[d] + mean[d];
        std::copy_n(x.begin(), s.head_dim, out + t * stride);
    }
}

}  // namespace

uint32_t ref_encode(const EncodePage& job) {
    const hot::Shape s = shape_of(job.spec, job.geometry);
    const HeadSidecar& own = job.sidecar;
    return encode_side(job, hot::ref_k_side(s), job.k, job.k_stride, own.k_mean, own.k_map) +
           encode_side(job, hot::ref_v_side(s), job.v, job.v_stride, own.v_mean, own.v_map);
}

void ref_decode(const DecodePage& job) {
    const hot::Shape s = shape_of(job.spec, job.geometry);
    const HeadSidecar& own = job.sidecar;
    decode_side(job, hot::ref_k_side(s), job.k, job.k_stride, own.k_mean, own.k_map);
    decode_side(job, hot::ref_v_side(s), job.v, job.v_stride, own.v_mean, own.v_map);
}

}  // namespace quire::codec::i2c
