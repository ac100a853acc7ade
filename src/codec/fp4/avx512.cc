#include "codec/isa/avx512.h"

#include "codec/fp4/fp4.h"
#include "codec/fp4/generic.h"

namespace quire::codec::fp4 {

uint32_t avx512_encode(const EncodePage& job) {
    return generic::encode_page<Avx512>(job);
}

void avx512_decode(const DecodePage& job) {
    generic::decode_page<Avx512>(job);
}

}  // namespace quire::codec::fp4
