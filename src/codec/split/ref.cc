// The oracle of tq2.5; README.md says the same in words.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "codec/hot/ref_side.h"
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

uint32_t encode_side(const EncodePage& job, const Numbers& own, const float* in, size_t stride) {
    if (in == nullptr) return 0;
    uint32_t not_finite = 0;
    for (uint32_t t = job.first; t < job.last; ++t) {
        Row x;
        bool finite = true;
        for (uint32_t i = 0; i < job.geometry.head_dim; ++i) {
            const uint32_t d = dim_of(own.map, i);
            x[i] = own.mean != nullptr ? in[t * stride + d] - own.mean[d] : in[t * stride + d];
            finite = finite && std::isfinite(x[i]);
        }
        if (!finite) x.fill(std::numeric_limits<float>::quiet_NaN());
        not_finite += !finite;
        for (const Part& part : {many_part(job.geometry), few_part(job.geometry)})
            hot::ref_encode_token(part.shape, own.side(part.shape), t, x.data() + part.first,
                                  job.page + part.offset);
    }
    return not_finite;
}

void decode_side(const DecodePage& job, const Numbers& own, float* out, size_t stride) {
    if (out == nullptr) return;
    for (uint32_t t = job.first; t < job.last; ++t) {
        Row x;
        for (const Part& part : {many_part(job.geometry), few_part(job.geometry)})
            hot::ref_decode_token(part.shape, own.side(part.shape), t, job.page + part.offset,
                                  job.original_space, x.data() + part.first);
        float* row = out + t * stride;
        for (uint32_t i = 0; i < job.geometry.head_dim; ++i) {
            const uint32_t d = job.original_space ? dim_of(own.map, i) : i;
            row[d] = job.original_space && own.mean != nullptr ? x[i] + own.mean[d] : x[i];
        }
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
