#include "kernels/cuda/mla/kernel.cuh"
#include "kernels/cuda/mla/units/units.cuh"

namespace quire::kernels::cuda {

int launch_mla_v4(const MlaParams& p, const CUtensorMap& map, int32_t workers,
                  CUstream_st* stream) {
    return mla_cluster(p) == 2 ? launch_mla_of<MlaSource::v4, 2>(p, map, workers, stream)
                               : launch_mla_of<MlaSource::v4, 1>(p, map, workers, stream);
}

}  // namespace quire::kernels::cuda
