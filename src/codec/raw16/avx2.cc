#include "codec/isa/avx2.h"

#include "codec/raw16/generic.h"
#include "codec/raw16/raw16.h"

namespace quire::codec::raw16 {

uint32_t avx2_encode(const EncodePage& job) {
    return generic::encode_page<Avx2>(job);
}

void avx2_decode(const DecodePage& job) {
    generic::decode_page<Avx2>(job);
}

}  // namespace quire::codec::raw16
