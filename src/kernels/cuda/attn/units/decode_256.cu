#include "kernels/cuda/attn/decode_kernel.cuh"

namespace quire::kernels::cuda {

template int launch_decode<256>(const DecodeParams&, int32_t, CUstream_st*);
template int32_t decode_blocks_each<256>();

}  // namespace quire::kernels::cuda
