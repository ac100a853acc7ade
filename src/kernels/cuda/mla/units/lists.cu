#include "kernels/cuda/mla/kernel.cuh"
#include "kernels/cuda/mla/units/units.cuh"

namespace quire::kernels::cuda {

int launch_mla_lists(const MlaParams& p, const CUtensorMap& map, int32_t workers,
                     CUstream_st* stream) {
    return launch_mla_of<MlaSource::lists, 1>(p, map, workers, stream);
}

}  // namespace quire::kernels::cuda
