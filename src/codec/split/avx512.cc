#include "codec/isa/avx512.h"

#include "codec/split/generic.h"
#include "codec/split/split.h"

namespace quire::codec::split {

uint32_t avx512_encode(const EncodePage& job) {
    return generic::encode_page<Avx512>(job);
}

void avx512_decode(const DecodePage& job) {
    generic::decode_page<Avx512>(job);
}

}  // namespace quire::codec::split
