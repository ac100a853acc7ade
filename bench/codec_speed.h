// How fast a codec is on one core, beside a plain copy of the same numbers as 16-bit bytes.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "codec/codec_table.h"

namespace quire::bench {

struct CodecSpeed {
    std::string codec;
    std::string isa;
    double bits_per_element = 0;  // as encoded
    // Bytes per second of uncoded 16-bit K and V, medians.
    double copy = 0;  // memcpy between two buffers of that size
    double encode = 0;
    double decode = 0;  // to float32, in the codec's space
    // Medians of paired ratios over the copy of the same turn.
    double encode_share = 0;
    double decode_share = 0;
};

struct CodecSpeedOptions {
    codec::Geometry geometry = {.head_dim = 128};
    uint32_t repeats = 5;
    bool quick = false;  // fewer pages
};

// Measures copy, encode and decode in turns, on buffers that no cache near the core holds, in time
// of the calling thread, so that a busy machine disturbs little.
// unsupported: the shape does not fit; full: no memory.
Result<CodecSpeed> measure_codec(const codec::CodecSpec& spec, const codec::PageCodecOps& ops,
                                 const CodecSpeedOptions& options);

// Encoding and decoding with every instruction set that this CPU has, slowest first.
Result<std::vector<CodecSpeed>> measure_codec_isas(const codec::CodecSpec& spec,
                                                   const CodecSpeedOptions& options);

}  // namespace quire::bench
