// Golden vectors: pages that every implementation of a codec must write byte for byte, on any
// machine and in any language. The numbers that go in are made by integer arithmetic
// (tests/golden/codec/README.md), so a file holds only what comes out.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "codec/codec.h"
#include "codec/description.h"

namespace quire::codec {

struct GoldenInput {
    std::vector<float> k, v;            // [block_tokens][head_dim]
    std::vector<float> k_mean, v_mean;  // [head_dim]
    // As RowMap has them; `back` is no inverse.
    std::vector<float> k_forward, k_back, v_forward, v_back;
    std::vector<uint16_t> k_order, v_order;
};

inline constexpr uint32_t kGoldenFirst = 0;
inline constexpr uint32_t kGoldenLast = 13;  // the page's last tokens are absent
inline constexpr float kGoldenKScale = 0.03125f;
inline constexpr float kGoldenVScale = 0.046875f;

GoldenInput golden_input(uint32_t head_dim, uint32_t block_tokens, uint64_t seed);

// One page and the CRC32C of what decoding gives: K then V of tokens [first, last), float32.
struct GoldenRecord {
    PageDescription description;
    uint64_t seed = 0;
    uint32_t coded_crc = 0;     // in the codec's space
    uint32_t original_crc = 0;  // in the original space
    std::vector<std::byte> page;
};

// REQUIRES: check_geometry(spec, geometry).ok(). NaNs are counted as 0x7fc00000.
GoldenRecord make_golden(const CodecSpec& spec, const Geometry& geometry, uint64_t seed,
                         const PageCodecOps& ops);

// A file is a 16-byte header and the records. corrupt: not such a file, or damaged.
std::vector<std::byte> write_golden(std::span<const GoldenRecord> records);
Result<std::vector<GoldenRecord>> read_golden(std::span<const std::byte> file);

// Encodes and decodes again with `ops`. corrupt: the message names the codec, the shape and the
// first byte or the decode that differs. miss: a codec or version that this build has not.
Status check_golden(const GoldenRecord& record, const PageCodecOps& ops);

}  // namespace quire::codec
