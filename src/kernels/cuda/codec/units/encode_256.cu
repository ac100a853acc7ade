#include "kernels/cuda/codec/encode_kernel.cuh"

namespace quire::kernels::cuda {

template int launch_encode<256>(const EncodeParams&, CUstream_st*);

}  // namespace quire::kernels::cuda
