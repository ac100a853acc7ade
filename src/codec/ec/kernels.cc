#include "codec/ec/kernels.h"

#include <array>
#include <cmath>
#include <cstdlib>

#include "codec/ec/kernel_sets.h"

namespace quire::codec::ec {

int32_t integer_of(float inverse, float x) {
    constexpr auto kMost = static_cast<float>(kIntegerMax);
    float scaled = x * inverse;
    scaled = scaled < kMost ? scaled : kMost;
    scaled = scaled > -kMost ? scaled : -kMost;
    return static_cast<int32_t>(std::nearbyint(scaled));
}

float number_of(float step, const Shrink& shrink, int32_t integer) {
    const int32_t size = std::abs(integer);
    if (size == 0) return 0;
    const float less = size == 1 ? shrink.one : shrink.more;
    return std::copysign((static_cast<float>(size) - less) * step, static_cast<float>(integer));
}

std::span<const Kernels> all_kernels() {
    static const std::array kAll = {
        ref_kernels(),
#if defined(__x86_64__)
        avx2_kernels(),
        avx512_kernels(),
        avx512_vnni_kernels(),
#endif
    };
    return kAll;
}

const Kernels& best_kernels() {
    static const Kernels& best = [&]() -> const Kernels& {
        const Kernels* found = &all_kernels().front();
        for (const Kernels& one : all_kernels())
            if (one.cpu_has_it()) found = &one;
        return *found;
    }();
    return best;
}

}  // namespace quire::codec::ec
