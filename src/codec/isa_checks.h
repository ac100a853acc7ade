// cpu_has() without an argument, for tables of functions.
#pragma once

#include "base/isa.h"

namespace quire::codec {

inline bool always() {
    return true;
}
inline bool has_avx2() {
    return cpu_has(Isa::avx2);
}
inline bool has_avx512() {
    return cpu_has(Isa::avx512);
}

}  // namespace quire::codec
