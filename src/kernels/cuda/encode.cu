#include "kernels/cuda/encode.h"

namespace quire::kernels::cuda {

template <int kHeadDim>
int launch_encode(const EncodeParams& p, CUstream_st* stream);

int encode(const EncodeParams& p, CUstream_st* stream) {
    if (p.n_tokens == 0) return 0;
    switch (p.head_dim) {
        case 64:
            return launch_encode<64>(p, stream);
        case 80:
            return launch_encode<80>(p, stream);
        case 96:
            return launch_encode<96>(p, stream);
        case 128:
            return launch_encode<128>(p, stream);
        case 192:
            return launch_encode<192>(p, stream);
        default:
            return launch_encode<256>(p, stream);
    }
}

}  // namespace quire::kernels::cuda
