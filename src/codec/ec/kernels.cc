#include "codec/ec/kernels.h"

#include <array>
#include <cmath>
#include <cstdlib>

#include "codec/ec/kernel_sets.h"

namespace quire::codec::ec {

float number_of(const Steps& steps, int32_t integer) {
    const int32_t size = std::abs(integer);
    if (size == 0) return 0;
    const float shrink = size == 1 ? steps.shrink_one : steps.shrink_more;
    return std::copysign((static_cast<float>(size) - shrink) * steps.step,
                         static_cast<float>(integer));
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
