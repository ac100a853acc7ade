#include "codec/isa/avx512.h"

#include "codec/raw16/generic.h"
#include "codec/raw16/raw16.h"

namespace quire::codec::raw16 {

uint32_t avx512_encode(const EncodePage& job) {
    return generic::encode_page<Avx512>(job);
}

void avx512_decode(const DecodePage& job) {
    generic::decode_page<Avx512>(job);
}

}  // namespace quire::codec::raw16
