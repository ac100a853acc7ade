#include "codec/isa/avx2.h"

#include "codec/fp4/fp4.h"
#include "codec/fp4/generic.h"

namespace quire::codec::fp4 {

uint32_t avx2_encode(const EncodePage& job) {
    return generic::encode_page<Avx2>(job);
}

void avx2_decode(const DecodePage& job) {
    generic::decode_page<Avx2>(job);
}

}  // namespace quire::codec::fp4
