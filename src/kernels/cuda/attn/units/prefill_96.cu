#include "kernels/cuda/attn/prefill_kernel.cuh"

namespace quire::kernels::cuda {

template int launch_prefill<96, PagesHold::codes>(const PrefillParams&, int32_t, CUstream_st*);
template int launch_prefill<96, PagesHold::f16>(const PrefillParams&, int32_t, CUstream_st*);
template int launch_prefill<96, PagesHold::bf16>(const PrefillParams&, int32_t, CUstream_st*);

}  // namespace quire::kernels::cuda
