#include "codec/isa/avx512.h"

#include "codec/i2c/generic.h"
#include "codec/i2c/i2c.h"

namespace quire::codec::i2c {

uint32_t avx512_encode(const EncodePage& job) {
    return generic::encode_page<Avx512>(job);
}

void avx512_decode(const DecodePage& job) {
    generic::decode_page<Avx512>(job);
}

}  // namespace quire::codec::i2c
