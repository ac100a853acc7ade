#include "base/isa.h"

namespace quire {

const char* isa_name(Isa isa) {
    switch (isa) {
        case Isa::ref:
            return "ref";
        case Isa::avx2:
            return "avx2";
        case Isa::avx512:
            return "avx512";
    }
    return "?";
}

bool cpu_has(Isa isa) {
    if (isa == Isa::ref) return true;
#if defined(__x86_64__)
    // libgcc's check includes that the operating system saves the registers.
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("f16c");
    if (isa == Isa::avx2) return avx2;
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
    return false;
#endif
}

}  // namespace quire
