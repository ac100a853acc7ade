// The oracle of tq2.5; README.md says the same in words.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "codec/hot/ref_side.h"
#include "codec/i2c/ref_product.h"
#include "codec/split/split.h"

namespace quire::codec::split {
namespace {

using Row = std::array<float, kMaxHeadDim>;
using SideOf = hot::RefSide (*)(const hot::Shape&);

// One side of the page, K or V.
struct Numbers {
    const float* mean;
    const RowMap& map;
    SideOf side;
};

// A row less its mean, turned and in order; NaNs when it is not finite.
Row read_row(const Numbers& own, const float* in, uint32_t n, bool* finite) {
    Row x, turned;
    *finite = true;
    for (uint32_t d = 0; d < n; ++d) {
        x[d] = own.mean != nullptr ? in[d] - own.mean[d] : in[d];
        *finite = *finite && std::isfinite(x[d]);
    }
    if (own.map.forward != nullptr)
        i2c::ref_product(x.data(), own.map.forward, n, turned.data());
    else
        turned = x;
    for (uint32_t i = 0; i < n; ++i)
        x[i] = *finite ? turned[component_of(own.map, i)] : std::numeric_limits<float>::quiet_NaN();
    return x;
}

uint32_t encode_side(const EncodePage& job, const Numbers& own, const float* in, size_t stride) {
    if (in == nullptr) return 0;
    uint32_t not_finite = 0;
    for (uint32_t t = job.first; t < job.last; ++t) {
        bool finite = true;
        const Row x = read_row(own, in + t * stride, job.geometry.head_dim, &finite);
        not_finite += !finite;
        for (const Part& part : {many_part(job.geometry), few_part(job.geometry)})
            hot::ref_encode_token(part.shape, own.side(part.shape), t, x.data() + part.first,
                                  job.page + part.offset);
    }
    return not_finite;
}

// Back to a row as it was.
void write_row(const Numbers& own, const float* coded, uint32_t n, float* out) {
    Row turned;
    for (uint32_t i = 0; i < n; ++i) turned[component_of(own.map, i)] = coded[i];
    if (own.map.forward != nullptr)
        i2c::ref_product(turned.data(), own.map.back, n, out);
    else
        std::copy_n(turned.begin(), n, out);
    for (uint32_t d = 0; own.mean != nullptr && d < n; ++d) out[d] = out[d] + own.mean[d];
}

void decode_side(const DecodePage& job, const Numbers& own, float* out, size_t stride) {
    if (out == nullptr) return;
    const uint32_t n = job.geometry.head_dim;
    for (uint32_t t = job.first; t < job.last; ++t) {
        Row x;
        for (const Part& part : {many_part(job.geometry), few_part(job.geometry)})
            hot::ref_decode_token(part.shape, own.side(part.shape), t, job.page + part.offset,
                                  job.original_space, x.data() + part.first);
        if (job.original_space)
            write_row(own, x.data(), n, out + t * stride);
        else
            std::copy_n(x.begin(), n, out + t * stride);
    }
}

}  // namespace

uint32_t ref_encode(const EncodePage& job) {
    const HeadSidecar& s = job.sidecar;
    return encode_side(job, {s.k_mean, s.k_map, hot::ref_k_side}, job.k, job.k_stride) +
           encode_side(job, {s.v_mean, s.v_map, hot::ref_v_side}, job.v, job.v_stride);
}

void ref_decode(const DecodePage& job) {
    const HeadSidecar& s = job.sidecar;
    decode_side(job, {s.k_mean, s.k_map, hot::ref_k_side}, job.k, job.k_stride);
    decode_side(job, {s.v_mean, s.v_map, hot::ref_v_side}, job.v, job.v_stride);
}

}  // namespace quire::codec::split
