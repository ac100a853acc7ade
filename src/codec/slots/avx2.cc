#include "codec/isa/avx2.h"

#include "codec/slots/generic.h"
#include "codec/slots/slots.h"

namespace quire::codec::slots {

uint32_t avx2_encode(const EncodePage& job) {
    return generic::encode_page<Avx2>(job);
}

void avx2_decode(const DecodePage& job) {
    generic::decode_page<Avx2>(job);
}

}  // namespace quire::codec::slots
