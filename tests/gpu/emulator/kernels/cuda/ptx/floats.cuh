// Stands in for src/kernels/cuda/ptx/floats.cuh.
#pragma once

#include <cuda_fp8.h>

namespace quire::kernels::cuda {

inline float max_or_nan(float a, float b) {
    return std::isnan(a) || std::isnan(b) ? std::nanf("") : std::max(a, b);
}
inline float approximate_root(float x) {
    return std::sqrt(x);
}

inline uint32_t e4m3_pair(float a, float b) {
    return __nv_cvt_float2_to_fp8x2({a, b}, __NV_SATFINITE, __NV_E4M3);
}
inline uint32_t e5m2_pair(float a, float b) {
    return __nv_cvt_float2_to_fp8x2({a, b}, __NV_SATFINITE, __NV_E5M2);
}
inline uint32_t f16_pair(float a, float b) {
    const __half_raw low = __float2half_rn(a), high = __float2half_rn(b);
    return uint32_t{high.x} << 16 | low.x;
}
inline uint32_t bf16_pair(float a, float b) {
    const __nv_bfloat16_raw low = __float2bfloat16_rn(a), high = __float2bfloat16_rn(b);
    return uint32_t{high.x} << 16 | low.x;
}
inline uint32_t f16_of_e4m3(uint32_t codes) {
    const auto both = static_cast<__nv_fp8x2_storage_t>(codes);
    const __half2_raw two = __nv_cvt_fp8x2_to_halfraw2(both, __NV_E4M3);
    return uint32_t{two.y} << 16 | two.x;
}

}  // namespace quire::kernels::cuda
