#include "kernels/cuda/codec/floats_kernel.cuh"

namespace quire::kernels::cuda {

template int launch_floats<Bf16Code>(const EncodeFloatsParams&, CUstream_st*);

}  // namespace quire::kernels::cuda
