// Which codecs there are. Pure; static storage; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codec/codec.h"

namespace quire::codec {

// One row per family.
std::span<const CodecRow> codec_table();

// The row of a spec's family. REQUIRES: the spec came from find_codec or codec_of_id.
const CodecRow& row_of(const CodecSpec& spec);

// By name, in lower case. invalid: no such codec; the message names the nearest.
Result<CodecSpec> find_codec(std::string_view name);

// From a header. miss: unknown here, or of another version; the message says which.
Result<CodecSpec> codec_of_id(uint32_t id, uint16_t version);

std::string codec_name(const CodecSpec& spec);
// The same of an id from outside, of any version: "codec 77" when no member has it.
std::string codec_name_of_id(uint32_t id);

// unsupported: the message names the shape, what is wrong with it, and codecs that fit.
Status check_geometry(const CodecSpec& spec, const Geometry& geometry);

// The shape with the element that the codec takes, where it takes one of them only.
Geometry with_fitting_element(const CodecSpec& spec, Geometry geometry);

// The rest REQUIRES check_geometry(spec, geometry).ok().
size_t page_bytes(const CodecSpec& spec, const Geometry& geometry);
// Of what an encoded page holds, the bytes that are to be kept; zeros follow them.
size_t stored_bytes(const CodecSpec& spec, const Geometry& geometry, const std::byte* page);
// Of a page, with scales and padding, over its 2 * block_tokens * head_dim numbers.
double bits_per_element(const CodecSpec& spec, const Geometry& geometry);

// The fastest functions for this CPU that need no more than `isa`.
const PageCodecOps& best_ops(const CodecRow& row, Isa isa = Isa::avx512);

}  // namespace quire::codec
