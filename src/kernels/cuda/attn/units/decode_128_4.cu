#include "kernels/cuda/attn/decode_kernel.cuh"

namespace quire::kernels::cuda {

template int launch_decode<128, 4, PageCodes>(const DecodeParams&, int32_t, CUstream_st*);
template int launch_decode<128, 4, PageFp8>(const DecodeParams&, int32_t, CUstream_st*);
template int launch_decode<128, 4, PageNumbers>(const DecodeParams&, int32_t, CUstream_st*);

}  // namespace quire::kernels::cuda
