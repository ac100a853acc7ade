#include "kernels/cuda/codec/floats_kernel.cuh"

namespace quire::kernels::cuda {

template int launch_floats<E4m3Code>(const EncodeFloatsParams&, CUstream_st*);

}  // namespace quire::kernels::cuda
