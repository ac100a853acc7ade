// The probes over an ISA vocabulary; included by one source file per ISA.
#pragma once

#include "kernels/bench/probes.h"

namespace quire::kernels::bench {

template <class V>
uint64_t read_bytes(const std::byte* p, size_t n) {
    constexpr size_t kVecs = 8, kStep = kVecs * V::kLanes;
    const float* f = reinterpret_cast<const float*>(p);
    typename V::f32 acc[kVecs];
    for (auto& a : acc) a = V::zero();
    for (size_t i = 0; i < n / sizeof(float); i += kStep)
        for (size_t j = 0; j < kVecs; ++j) acc[j] = V::max(acc[j], V::load(f + i + j * V::kLanes));
    for (size_t j = 1; j < kVecs; ++j) acc[0] = V::max(acc[0], acc[j]);
    float lanes[V::kLanes];
    V::store(lanes, acc[0]);
    uint64_t sum = 0;
    for (float x : lanes) sum += x > 0.0f;
    return sum;
}

template <class V>
double multiply_add(int64_t rounds) {
    constexpr int kChains = 12;
    typename V::f32 acc[kChains];
    for (int i = 0; i < kChains; ++i) acc[i] = V::set1(0.5f + i);
    const typename V::f32 a = V::set1(0.999f), b = V::set1(0.001f);
    for (int64_t r = 0; r < rounds; ++r)
        for (int i = 0; i < kChains; ++i) acc[i] = V::fma(acc[i], a, b);
    for (int i = 1; i < kChains; ++i) acc[0] = V::add(acc[0], acc[i]);
    float lanes[V::kLanes];
    V::store(lanes, acc[0]);
    // The sum is positive; the compiler does not know.
    return lanes[0] < 0.0f ? 0.0 : 2.0 * kChains * V::kLanes * static_cast<double>(rounds);
}

}  // namespace quire::kernels::bench
