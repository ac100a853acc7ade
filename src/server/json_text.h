// Bytes to JSON and back, with the bounds that bytes from outside need.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "server/api_error.h"

namespace quire::server {

using Json = nlohmann::json;                 // what was read
using OrderedJson = nlohmann::ordered_json;  // what is sent, fields in the order written

// No request of ours nests deeper than 8; the rest is an attack on a parser's stack.
inline constexpr size_t kMaxJsonDepth = 64;

// One JSON object. Refuses, with a 400 that says where: anything else than an object, deeper
// nesting than kMaxJsonDepth, invalid UTF-8, lone surrogates in \u escapes, numbers past a double's
// range.
ApiResult<Json> parse_json_object(std::string_view bytes);

// Compact text; bytes that are not UTF-8 (a token may end inside a character) become U+FFFD.
std::string dump_json(const OrderedJson& value);
std::string dump_json(const Json& value);

// At most `max_bytes` of a text for an error message, cut between characters.
std::string shorten(std::string_view text, size_t max_bytes);

// "1 to 20": how messages write a range of integers or reals.
std::string range_text(double min, double max);

}  // namespace quire::server
