// tq2.5 over an ISA vocabulary V.
#pragma once

#include "codec/hot/generic/page.h"
#include "codec/i2c/product.h"
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

// The part's components of a row less its mean; NaNs and false when it is not finite.
template <class V>
bool read_row(const Numbers& own, const Part& part, const float* in, uint32_t n, float* x) {
    alignas(64) float centred[kMaxHeadDim];
    alignas(64) float turned[kMaxHeadDim];
    hot::generic::take_off<V>(in, own.mean, n, centred);
    const bool finite = hot::generic::largest_bits<V>(centred, n) < kInfinity;
    const float* from = centred;
    if (own.map->forward != nullptr) {
        i2c::generic::product<V>(centred, own.map->forward, n, turned);
        from = turned;
    }
    for (uint32_t i = 0; i < part.shape.head_dim; ++i)
        x[i] = finite ? from[component_of(*own.map, part.first + i)] : __builtin_nanf("");
    return finite;
}

// Returns how many rows held something that is not finite.
template <class V>
uint32_t encode_part(const EncodePage& job, const Part& part, const Numbers& own, const float* in) {
    uint32_t not_finite = 0;
    hot::generic::encode_side<V>(job.page + part.offset, job.first, job.last, part.shape,
                                 side_of(part, own.keys), [&](uint32_t t, float* x) {
                                     not_finite += !read_row<V>(own, part, in + t * own.stride,
                                                                job.geometry.head_dim, x);
                                 });
    return not_finite;
}

// Back to a row as it was, in place.
template <class V>
void write_row(const Numbers& own, uint32_t n, float* row) {
    alignas(64) float turned[kMaxHeadDim];
    for (uint32_t i = 0; i < n; ++i) turned[component_of(*own.map, i)] = row[i];
    if (own.map->forward != nullptr)
        i2c::generic::product<V>(turned, own.map->back, n, row);
    else
        __builtin_memcpy(row, turned, n * sizeof(float));
    hot::generic::put_on<V>(own.mean, n, row);
}

template <class V>
void decode_numbers(const DecodePage& job, const Numbers& own, float* out) {
    if (out == nullptr) return;
    for (const Part& part : {many_part(job.geometry), few_part(job.geometry)})
        hot::generic::decode_side<V>(
            job.page + part.offset, job.first, job.last, part.shape, side_of(part, own.keys),
            job.original_space, [&](uint32_t t) { return out + t * own.stride + part.first; },
            [](uint32_t, float*) {});
    for (uint32_t t = job.first; job.original_space && t < job.last; ++t)
        write_row<V>(own, job.geometry.head_dim, out + t * own.stride);
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
    const HeadSidecar& s = job.sidecar;
    decode_numbers<V>(job, {true, job.k_stride, s.k_mean, &s.k_map}, job.k);
    decode_numbers<V>(job, {false, job.v_stride, s.v_mean, &s.v_map}, job.v);
}

}  // namespace quire::codec::split::generic
