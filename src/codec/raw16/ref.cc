// The oracle of raw16.
#include <cmath>

#include "codec/raw16/raw16.h"
#include "core/half.h"

namespace quire::codec::raw16 {
namespace {

using At = size_t (*)(const Geometry&, uint32_t token, uint32_t dim);

uint32_t encode_side(const EncodePage& job, const float* in, size_t stride, At at) {
    if (in == nullptr) return 0;
    auto* numbers = reinterpret_cast<uint16_t*>(job.page);
    uint32_t not_finite = 0;
    for (uint32_t token = job.first; token < job.last; ++token) {
        bool finite = true;
        for (uint32_t dim = 0; dim < job.geometry.head_dim; ++dim) {
            const float x = in[token * stride + dim];
            finite = finite && std::isfinite(x);
            numbers[at(job.geometry, token, dim)] = from_f32(job.geometry.element, x);
        }
        not_finite += !finite;
    }
    return not_finite;
}

void decode_side(const DecodePage& job, float* out, size_t stride, At at) {
    if (out == nullptr) return;
    const auto* numbers = reinterpret_cast<const uint16_t*>(job.page);
    for (uint32_t token = job.first; token < job.last; ++token)
        for (uint32_t dim = 0; dim < job.geometry.head_dim; ++dim)
            out[token * stride + dim] =
                to_f32(job.geometry.element, numbers[at(job.geometry, token, dim)]);
}

size_t at_k(const Geometry& g, uint32_t token, uint32_t dim) {
    return k_at(g, token, dim);
}
size_t at_v(const Geometry& g, uint32_t token, uint32_t dim) {
    return v_at(g, token, dim);
}

}  // namespace

uint32_t ref_encode(const EncodePage& job) {
    return encode_side(job, job.k, job.k_stride, at_k) +
           encode_side(job, job.v, job.v_stride, at_v);
}

void ref_decode(const DecodePage& job) {
    decode_side(job, job.k, job.k_stride, at_k);
    decode_side(job, job.v, job.v_stride, at_v);
}

}  // namespace quire::codec::raw16
