// The table of a family that has an oracle, AVX2 and AVX-512.
#pragma once

#include <array>
#include <span>

#include "codec/codec.h"
#include "codec/isa_checks.h"

namespace quire::codec {

using EncodeFunction = decltype(PageCodecOps::encode);
using DecodeFunction = decltype(PageCodecOps::decode);

template <EncodeFunction kRefEncode, DecodeFunction kRefDecode, EncodeFunction kAvx2Encode,
          DecodeFunction kAvx2Decode, EncodeFunction kAvx512Encode, DecodeFunction kAvx512Decode>
std::span<const PageCodecOps> isa_ops() {
    static constexpr std::array kTable = {
        PageCodecOps{Isa::ref, "ref", always, kRefEncode, kRefDecode},
#if defined(__x86_64__)
        PageCodecOps{Isa::avx2, "avx2", has_avx2, kAvx2Encode, kAvx2Decode},
        PageCodecOps{Isa::avx512, "avx512", has_avx512, kAvx512Encode, kAvx512Decode},
#endif
    };
    return kTable;
}

}  // namespace quire::codec
