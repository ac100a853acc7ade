#include "codec/isa/avx2.h"

#include "codec/i2c/generic.h"
#include "codec/i2c/i2c.h"

namespace quire::codec::i2c {

uint32_t avx2_encode(const EncodePage& job) {
    return generic::encode_page<Avx2>(job);
}

void avx2_decode(const DecodePage& job) {
    generic::decode_page<Avx2>(job);
}

}  // namespace quire::codec::i2c
