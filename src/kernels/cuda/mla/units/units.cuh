// One instantiation of the kernel a file. `map` is of the pages, and read by `tiles` alone.
#pragma once

#include <cuda.h>

#include "kernels/cuda/mla/mla.h"

namespace quire::kernels::cuda {

int launch_mla_tiles(const MlaParams& p, const CUtensorMap& map, int32_t workers,
                     CUstream_st* stream);
int launch_mla_lists(const MlaParams& p, const CUtensorMap& map, int32_t workers,
                     CUstream_st* stream);
int launch_mla_v32(const MlaParams& p, const CUtensorMap& map, int32_t workers,
                   CUstream_st* stream);
int launch_mla_v4(const MlaParams& p, const CUtensorMap& map, int32_t workers, CUstream_st* stream);

}  // namespace quire::kernels::cuda
