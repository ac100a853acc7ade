// A block's arithmetic over an ISA vocabulary V: codec/isa's, and what each file adds to it.
#pragma once

#include "base/aligned_vector.h"
#include "base/prefetch.h"
#include "codec/ec/kernel_sets.h"

namespace quire::codec::ec::generic {

// kVectors of tokens times kPanels of outputs, sums in registers.
template <class V, uint32_t kVectors, uint32_t kPanels>
[[gnu::always_inline]] inline void multiply_tile(const Product& job, uint32_t output,
                                                 uint32_t token) {
    constexpr uint32_t kOutputs = kPanels * kPanel;
    typename V::f32 sums[kOutputs][kVectors];
    float* out = job.out + size_t{output} * job.stride + token;
#pragma GCC unroll 16
    for (uint32_t o = 0; o < kOutputs; ++o)
#pragma GCC unroll 4
        for (uint32_t v = 0; v < kVectors; ++v)
            sums[o][v] = V::load(out + size_t{o} * job.stride + size_t{v} * kLanes);
    const size_t panel_floats = size_t{job.inputs} * kPanel;
    const float* matrix = job.matrix + output / kPanel * panel_floats;
    for (uint32_t n = 0; n < job.used_count; ++n) {
        const size_t i = job.used[n];
        typename V::f32 x[kVectors];
#pragma GCC unroll 4
        for (uint32_t v = 0; v < kVectors; ++v)
            x[v] = V::load(job.x + i * job.stride + token + size_t{v} * kLanes);
#pragma GCC unroll 16
        for (uint32_t o = 0; o < kOutputs; ++o) {
            const auto weight =
                V::set1(matrix[o / kPanel * panel_floats + i * kPanel + o % kPanel]);
#pragma GCC unroll 4
            for (uint32_t v = 0; v < kVectors; ++v) sums[o][v] = V::fma(weight, x[v], sums[o][v]);
        }
    }
#pragma GCC unroll 16
    for (uint32_t o = 0; o < kOutputs; ++o)
#pragma GCC unroll 4
        for (uint32_t v = 0; v < kVectors; ++v)
            V::store(out + size_t{o} * job.stride + size_t{v} * kLanes, sums[o][v]);
}

template <class V, uint32_t kVectors, uint32_t kPanels>
[[gnu::always_inline]] inline void predict_tile(const Prediction& job, uint32_t output,
                                                uint32_t token) {
    constexpr uint32_t kOutputs = kPanels * kPanel;
    typename V::i32 sums[kOutputs][kVectors];
#pragma GCC unroll 16
    for (uint32_t o = 0; o < kOutputs; ++o)
#pragma GCC unroll 4
        for (uint32_t v = 0; v < kVectors; ++v) sums[o][v] = V::iset1(job.offsets[output + o]);
    const uint32_t quads = job.dims / kQuad;
    const size_t panel_bytes = size_t{quads} * kPanel * kQuad;
    const int8_t* weights = job.weights + output / kPanel * panel_bytes;
    for (uint32_t q = 0; q < quads; ++q) {
        typename V::Bytes x[kVectors];
#pragma GCC unroll 4
        for (uint32_t v = 0; v < kVectors; ++v)
            x[v] = V::load_bytes(job.history.bytes +
                                 (size_t{q} * job.stride + token + size_t{v} * kLanes) * kQuad);
#pragma GCC unroll 16
        for (uint32_t o = 0; o < kOutputs; ++o) {
            const auto weight = V::set_weights(weights + o / kPanel * panel_bytes +
                                               (size_t{q} * kPanel + o % kPanel) * kQuad);
#pragma GCC unroll 4
            for (uint32_t v = 0; v < kVectors; ++v) sums[o][v] = V::dot(sums[o][v], x[v], weight);
        }
    }
    float* out = job.out + size_t{output} * job.stride + token;
#pragma GCC unroll 16
    for (uint32_t o = 0; o < kOutputs; ++o)
#pragma GCC unroll 4
        for (uint32_t v = 0; v < kVectors; ++v) {
            float* at = out + size_t{o} * job.stride + size_t{v} * kLanes;
            const auto part =
                V::mul(V::to_float(sums[o][v]), V::set1(job.weight_scales[output + o]));
            V::store(at, V::fma(part, V::load(job.history.scales + token + size_t{v} * kLanes),
                                V::load(at)));
        }
}

// Fetches what comes next, so much with each of some tiles.
class Fetch {
 public:
    Fetch(const Upcoming& upcoming, uint32_t tiles)
        : at_(static_cast<const char*>(upcoming.bytes)), share_((upcoming.n + tiles - 1) / tiles) {}
    [[gnu::always_inline]] void some() {
        for (const char* end = at_ + share_; at_ < end; at_ += kCacheLineBytes) prefetch_l1(at_);
    }

 private:
    const char* at_;
    size_t share_;
};

// Calls tile.template operator()<vectors, panels>(job, output, token) for all of a job.
template <class V, class Job, class Tile>
[[gnu::always_inline]] inline void each_tile(const Job& job, const Tile& tile) {
    uint32_t t = 0;
    Fetch fetch(job.upcoming, job.outputs / kPanel);
    if constexpr (V::kTileVectors >= 4)
        for (; t + 4 * kLanes <= job.stride; t += 4 * kLanes)
            for (uint32_t o = 0; o < job.outputs; o += kPanel) {
                if (t == 0) fetch.some();
                tile.template operator()<4, 1>(job, o, t);
            }
    if constexpr (V::kTileVectors >= 2)
        for (; t + 2 * kLanes <= job.stride; t += 2 * kLanes)
            for (uint32_t o = 0; o < job.outputs; o += 2 * kPanel)
                tile.template operator()<2, 2>(job, o, t);
    for (; t < job.stride; t += kLanes)
        for (uint32_t o = 0; o < job.outputs; o += V::kTileVectors * kPanel)
            tile.template operator()<1, V::kTileVectors>(job, o, t);
}

// The usual block has addresses that the compiler knows, a twelfth faster. The job is a copy, which
// no store can change.
template <class V, class Job, class Tile>
[[gnu::always_inline]] inline void whole(Job job, const Tile& tile) {
    constexpr uint32_t kUsualTokens = 64;
    if (job.stride != kUsualTokens) return each_tile<V>(job, tile);
    job.stride = kUsualTokens;
    each_tile<V>(job, tile);
}

template <class V>
void multiply(const Product& job) {
    whole<V>(job, []<uint32_t kVectors, uint32_t kPanels>(const Product& one, uint32_t o,
                                                          uint32_t t)
                      __attribute__((always_inline)) {
                          multiply_tile<V, kVectors, kPanels>(one, o, t);
                      });
}

template <class V>
void predict(const Prediction& job) {
    whole<V>(job, []<uint32_t kVectors, uint32_t kPanels>(const Prediction& one, uint32_t o,
                                                          uint32_t t)
                      __attribute__((always_inline)) {
                          predict_tile<V, kVectors, kPanels>(one, o, t);
                      });
}

template <class V>
void to_columns(const float* rows, uint32_t tokens, uint32_t dims, uint32_t stride,
                float* columns) {
    for (uint32_t t = 0; t < stride; t += kLanes)
        for (uint32_t d = 0; d < dims; d += kLanes) {
            float* out = columns + size_t{d} * stride + t;
            const float* in = rows + size_t{t} * dims + d;
            if (t + kLanes <= tokens) {
                V::transpose(in, dims, out, stride);
                continue;
            }
            alignas(64) float some[kLanes * kLanes] = {};
            for (uint32_t i = 0; t + i < tokens; ++i)
                V::store(some + size_t{i} * kLanes, V::load(in + size_t{i} * dims));
            V::transpose(some, kLanes, out, stride);
        }
}

template <class V>
void to_rows(const float* columns, uint32_t tokens, uint32_t dims, uint32_t stride, float* rows) {
    for (uint32_t t = 0; t < tokens; t += kLanes)
        for (uint32_t d = 0; d < dims; d += kLanes) {
            const float* in = columns + size_t{d} * stride + t;
            float* out = rows + size_t{t} * dims + d;
            if (t + kLanes <= tokens) {
                V::transpose(in, stride, out, dims);
                continue;
            }
            alignas(64) float some[kLanes * kLanes];
            V::transpose(in, stride, some, kLanes);
            for (uint32_t i = 0; t + i < tokens; ++i)
                V::store(out + size_t{i} * dims, V::load(some + size_t{i} * kLanes));
        }
}

template <class V>
void repeat(const float* numbers, uint32_t dims, uint32_t stride, float* columns) {
    for (uint32_t d = 0; d < dims; ++d) {
        const auto number = V::set1(numbers[d]);
        for (uint32_t t = 0; t < stride; t += kLanes, columns += kLanes)
            V::store(columns, number);
    }
}

template <class V>
uint32_t subtract(float* columns, const float* numbers, uint32_t dims, uint32_t stride) {
    uint32_t not_finite = 0;
    const auto infinity = V::iset1(0x7f800000);
    for (uint32_t t = 0; t < stride; t += kLanes) {
        auto top = V::iset1(0);
        for (uint32_t d = 0; d < dims; ++d)
            top = V::imax(top, V::bits(V::abs(V::load(columns + size_t{d} * stride + t))));
        for (uint32_t d = 0; d < dims; ++d) {
            const size_t at = size_t{d} * stride + t;
            const auto left = V::sub(V::load(columns + at), V::set1(numbers[d]));
            V::store(columns + at,
                     V::from_bits(V::if_less(top, infinity, V::bits(left), V::iset1(0))));
        }
        if (V::largest(top) < 0x7f800000) continue;
        alignas(64) float bad[kLanes];
        V::store(bad, V::to_float(V::if_less(top, infinity, V::iset1(0), V::iset1(1))));
        for (const float one : bad) not_finite += one > 0;
    }
    return not_finite;
}

template <class V>
void remember(const Remember& job) {
    const auto steps = V::set1(kHistorySteps), minus = V::set1(-kHistorySteps);
    for (uint32_t t = 0; t < job.stride; t += kLanes) {
        const auto number = [&](uint32_t d) __attribute__((always_inline)) {
            return V::mul(V::load(job.columns + size_t{d} * job.stride + t),
                          V::set1(job.inverse[d]));
        };
        auto largest = V::set1(kHistorySmallest);
        for (uint32_t d = 0; d < job.dims; ++d) largest = V::max(V::abs(number(d)), largest);
        largest = V::min(largest, V::set1(kHistoryLargest));
        const auto inverse = V::div(steps, largest);
        V::store(job.scales + t, V::div(largest, steps));
        const auto byte = [&](uint32_t d) __attribute__((always_inline)) {
            const auto scaled = V::max(V::min(V::mul(number(d), inverse), steps), minus);
            return V::iadd(V::to_int(scaled), V::iset1(kHistoryZero));
        };
        for (uint32_t d = 0; d < job.dims; d += kQuad)
            V::store_bytes(job.bytes + (size_t{d} * job.stride + size_t{t} * kQuad),
                           V::ior(V::ior(byte(d), V::template shift_left<8>(byte(d + 1))),
                                  V::ior(V::template shift_left<16>(byte(d + 2)),
                                         V::template shift_left<24>(byte(d + 3)))));
    }
}

template <class V>
struct Levels {
    typename V::i32 shrink_one, shrink_more;
    typename V::f32 step;
    explicit Levels(float step_, const Shrink& shrink)
        : shrink_one(V::bits(V::set1(shrink.one))),
          shrink_more(V::bits(V::set1(shrink.more))),
          step(V::set1(step_)) {}
    // Of integers and their sizes.
    [[gnu::always_inline]] typename V::f32 numbers(typename V::i32 integer,
                                                   typename V::i32 size) const {
        const auto zero = V::iset1(0);
        const auto shrink =
            V::from_bits(V::if_less(size, V::iset1(2), shrink_one, shrink_more));
        const auto value = V::bits(V::mul(V::sub(V::to_float(size), shrink), step));
        const auto sign = V::iand(integer, V::iset1(INT32_MIN));
        return V::from_bits(V::if_less(zero, size, V::ior(value, sign), zero));
    }
};

inline uint8_t seen_of(int32_t largest) {
    if (largest == 0) return kSeenNone;
    return largest < kLargest ? kSeenNumber : kSeenNumber | kSeenEscape;
}

template <class V, bool kExpected>
void dequantise_with(const Components& head, const float* expected, const uint8_t* symbols,
                     float* x, uint8_t* seen) {
    const auto zero = V::iset1(0);
    for (uint32_t c = 0; c < head.dims; ++c, symbols += head.stride, x += head.stride) {
        const Levels<V> levels(head.step, head.shrinks[head.classes[c]]);
        auto top = zero;
        for (uint32_t t = 0; t < head.stride; t += kLanes) {
            const auto integer = V::isub(V::load_u8(symbols + t), V::iset1(kLargest));
            const auto size = V::imax(integer, V::isub(zero, integer));
            top = V::imax(top, size);
            auto number = levels.numbers(integer, size);
            if constexpr (kExpected) number = V::add(number, V::load(expected + t));
            V::store(x + t, number);
        }
        if constexpr (kExpected) expected += head.stride;
        seen[c] = seen_of(V::largest(top));
    }
}

template <class V>
void dequantise(const Components& head, const float* expected, const uint8_t* symbols, float* x,
                uint8_t* seen) {
    (expected == nullptr ? dequantise_with<V, false> : dequantise_with<V, true>)(
        head, expected, symbols, x, seen);
}

template <class V, bool kExpected>
void quantise_with(const Components& head, const float* expected, const float* x,
                   uint8_t* symbols, float* numbers, uint8_t* seen) {
    const auto most = V::set1(float{kIntegerMax}), least = V::set1(-float{kIntegerMax});
    const auto high = V::iset1(kLargest), low = V::iset1(-kLargest), zero = V::iset1(0);
    const auto inverse = V::set1(head.inverse);
    for (uint32_t c = 0; c < head.dims; ++c) {
        const Levels<V> levels(head.step, head.shrinks[head.classes[c]]);
        auto top = zero;
        for (uint32_t t = 0; t < head.stride; t += kLanes, x += kLanes) {
            auto before = V::set1(0);
            if constexpr (kExpected) before = V::load(expected);
            const auto scaled = V::mul(V::sub(V::load(x), before), inverse);
            const auto integer = V::to_int(V::max(V::min(scaled, most), least));
            const auto size = V::imax(integer, V::isub(zero, integer));
            top = V::imax(top, size);
            const auto inside = V::imax(V::if_less(integer, high, integer, high), low);
            V::store_u8(symbols, V::iadd(inside, high));
            V::store(numbers, V::add(levels.numbers(integer, size), before));
            symbols += kLanes, numbers += kLanes;
            if constexpr (kExpected) expected += kLanes;
        }
        seen[c] = seen_of(V::largest(top));
    }
}

template <class V>
void quantise(const Components& head, const float* expected, const float* x, uint8_t* symbols,
              float* numbers, uint8_t* seen) {
    (expected == nullptr ? quantise_with<V, false> : quantise_with<V, true>)(
        head, expected, x, symbols, numbers, seen);
}

template <class V>
Kernels kernels(const char* name, bool (*cpu_has_it)(), decltype(Kernels::read) read,
                decltype(Kernels::write) write) {
    return {name,        cpu_has_it,  to_columns<V>, to_rows<V>,  repeat<V>,
            subtract<V>, multiply<V>, predict<V>,    remember<V>, quantise<V>,
            dequantise<V>, read,      write};
}

}  // namespace quire::codec::ec::generic
