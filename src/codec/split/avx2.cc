#include "codec/isa/avx2.h"

#include "codec/split/generic.h"
#include "codec/split/split.h"

namespace quire::codec::split {

uint32_t avx2_encode(const EncodePage& job) {
    return generic::encode_page<Avx2>(job);
}

void avx2_decode(const DecodePage& job) {
    generic::decode_page<Avx2>(job);
}

}  // namespace quire::codec::split
