// From a width that is known only when a kernel runs to code that was compiled for it.
#pragma once

#include "codec/hot/layout.h"

namespace quire::kernels::cuda {

// Calls run<bits> for a width that is known only now.
template <int kBits = codec::hot::kMinBits, class Run>
__device__ __forceinline__ void with_bits(int bits, Run run) {
    if constexpr (kBits < codec::hot::kMaxBits)
        if (bits != kBits) return with_bits<kBits + 1>(bits, run);
    run.template operator()<kBits>();
}

}  // namespace quire::kernels::cuda
