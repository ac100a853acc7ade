#include "codec/ec/avx512_words.h"

namespace quire::codec::ec {
namespace {

struct Words : Avx512Words {
    using Bytes = __m512i;
    static Bytes load_bytes(const uint8_t* p) { return _mm512_loadu_si512(p); }
    static Bytes set_weights(const int8_t* p) {
        int32_t four;
        __builtin_memcpy(&four, p, sizeof(four));
        return _mm512_set1_epi32(four);
    }
    // As assembly, for g++ 12 moves each sum to another register and back around the intrinsic.
    static i32 dot(i32 sum, Bytes x, Bytes weights) {
        asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(weights));
        return sum;
    }
};

bool has_vnni() {
    return has_avx512() && __builtin_cpu_supports("avx512vnni") != 0;
}

}  // namespace

Kernels avx512_vnni_kernels() {
    Kernels all = avx512_kernels();
    all.name = "avx512-vnni";
    all.cpu_has_it = has_vnni;
    all.predict = generic::predict<Words>;
    return all;
}

}  // namespace quire::codec::ec
