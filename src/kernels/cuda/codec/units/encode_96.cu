#include "kernels/cuda/codec/encode_kernel.cuh"

namespace quire::kernels::cuda {

template int launch_encode<96>(const EncodeParams&, CUstream_st*);

}  // namespace quire::kernels::cuda
