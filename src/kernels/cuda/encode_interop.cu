#include "kernels/cuda/codec/fp4_kernel.cuh"
#include "kernels/cuda/codec/slots_kernel.cuh"
#include "kernels/cuda/encode_interop.h"
#include "kernels/cuda/launch_kernel.cuh"

namespace quire::kernels::cuda {

int encode_interop(const EncodeInteropParams& p, CUstream_st* stream) {
    if (p.n_tokens == 0) return 0;
    switch (p.format) {
        case InteropFormat::nvfp4:
            return launch_kernel(fp4_kernel, dim3(interop_blocks(p), 2), kInteropThreads, 0, stream,
                                 p);
        case InteropFormat::turboquant_k8v4:
            return launch_slots<8, 4>(p, stream);
        case InteropFormat::turboquant_4bit_nc:
            return launch_slots<4, 4>(p, stream);
        case InteropFormat::turboquant_k3v4_nc:
            return launch_slots<3, 4>(p, stream);
        default:
            return launch_slots<3, 3>(p, stream);
    }
}

}  // namespace quire::kernels::cuda
