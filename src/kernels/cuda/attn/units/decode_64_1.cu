#include "kernels/cuda/attn/decode_kernel.cuh"

namespace quire::kernels::cuda {

template int launch_decode<64, 1, PageCodes>(const DecodeParams&, int32_t, CUstream_st*);
template int launch_decode<64, 1, PageFp8>(const DecodeParams&, int32_t, CUstream_st*);
template int launch_decode<64, 1, PageNumbers>(const DecodeParams&, int32_t, CUstream_st*);

}  // namespace quire::kernels::cuda
