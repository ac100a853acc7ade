// What pages say about themselves: fixed bytes for slab and file headers, so that a reader can
// refuse pages of a codec, shape or sidecar other than its own. Checksums are the header's matter.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "codec/codec.h"
#include "core/hash128.h"

namespace quire::codec {

// Little-endian, as it lies in files.
struct PageDescription {
    uint32_t codec = 0;  // CodecSpec::id()
    uint16_t version = 0;
    uint8_t element = 0;
    uint8_t reserved0 = 0;
    uint16_t head_dim = 0;
    uint16_t kv_heads = 0;
    uint16_t block_tokens = 0;
    uint16_t reserved1 = 0;
    uint32_t page_bytes = 0;
    uint32_t reserved2 = 0;
    // Of the sidecar whose means, scales and transforms the pages were coded with; zero: none.
    Hash128 sidecar;

    friend bool operator==(const PageDescription&, const PageDescription&) = default;
};
static_assert(sizeof(PageDescription) == 40);

// REQUIRES: check_geometry(spec, geometry).ok().
PageDescription describe(const CodecSpec& spec, const Geometry& geometry, Hash128 sidecar = {});

// The codec of a description that came from outside. miss: unknown here, of another version, or a
// shape, size or reserved field that does not fit; the message says what.
Result<CodecSpec> codec_of(const PageDescription& found);
// REQUIRES: codec_of(found).ok().
Geometry geometry_of(const PageDescription& found);

// miss when any field differs; the message names the first one with both values.
Status match_description(const PageDescription& found, const PageDescription& expected);

}  // namespace quire::codec
