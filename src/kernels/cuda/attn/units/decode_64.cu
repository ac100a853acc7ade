#include "kernels/cuda/attn/decode_kernel.cuh"

namespace quire::kernels::cuda {

template int launch_decode<64>(const DecodeParams&, int32_t, CUstream_st*);
template int32_t decode_blocks_each<64>();

}  // namespace quire::kernels::cuda
