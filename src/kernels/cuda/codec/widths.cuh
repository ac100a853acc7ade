// From a width that is known only when a kernel runs to code that was compiled for it.
#pragma once

namespace quire::kernels::cuda {

// Calls run<bits> for a width that is known only now; the usual ones are found first.
template <class Run>
__device__ __forceinline__ void with_bits(int bits, Run run) {
    if (bits == 4) return run.template operator()<4>();
    if (bits == 8) return run.template operator()<8>();
    if (bits == 3) return run.template operator()<3>();
    if (bits == 6) return run.template operator()<6>();
    if (bits == 2) return run.template operator()<2>();
    if (bits == 5) return run.template operator()<5>();
    run.template operator()<7>();
}

}  // namespace quire::kernels::cuda
