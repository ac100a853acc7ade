#include "kernels/cuda/codec/float_codes.cuh"
#include "kernels/cuda/encode_floats.h"

namespace quire::kernels::cuda {

template <class Target>
int launch_floats(const EncodeFloatsParams& p, CUstream_st* stream);

int encode_floats(const EncodeFloatsParams& p, CUstream_st* stream) {
    if (p.n_tokens == 0) return 0;
    switch (p.pages_hold) {
        case PageFloats::e4m3:
            return launch_floats<E4m3Code>(p, stream);
        case PageFloats::e5m2:
            return launch_floats<E5m2Code>(p, stream);
        case PageFloats::f16:
            return launch_floats<F16Code>(p, stream);
        default:
            return launch_floats<Bf16Code>(p, stream);
    }
}

}  // namespace quire::kernels::cuda
