#include "codec/isa/avx512.h"

#include "codec/fp8/fp8.h"
#include "codec/fp8/generic.h"

namespace quire::codec::fp8 {

uint32_t avx512_encode(const EncodePage& job) {
    return generic::encode_page<Avx512>(job);
}

void avx512_decode(const DecodePage& job) {
    generic::decode_page<Avx512>(job);
}

}  // namespace quire::codec::fp8
