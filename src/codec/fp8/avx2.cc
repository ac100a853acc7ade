#include "codec/isa/avx2.h"

#include "codec/fp8/fp8.h"
#include "codec/fp8/generic.h"

namespace quire::codec::fp8 {

uint32_t avx2_encode(const EncodePage& job) {
    return generic::encode_page<Avx2>(job);
}

void avx2_decode(const DecodePage& job) {
    generic::decode_page<Avx2>(job);
}

}  // namespace quire::codec::fp8
