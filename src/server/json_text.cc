#include "server/json_text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>

namespace quire::server {
namespace {

ApiError bad_json(std::string message) {
    return bad_field({}, std::move(message), "invalid_json");
}

// The deepest nesting of brackets outside strings; stops counting once past `limit`.
size_t nesting_depth(std::string_view bytes, size_t limit) {
    size_t depth = 0;
    size_t deepest = 0;
    bool in_string = false;
    for (size_t i = 0; i < bytes.size() && deepest <= limit; ++i) {
        const char c = bytes[i];
        if (in_string) {
            if (c == '\\') ++i;
            if (c == '"') in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            deepest = std::max(deepest, ++depth);
        } else if ((c == ']' || c == '}') && depth > 0) {
            --depth;
        }
    }
    return deepest;
}

// The library's text without its "[json.exception...] " mark.
std::string without_mark(std::string_view what) {
    const size_t end = what.find("] ");
    if (!what.empty() && what[0] == '[' && end != std::string_view::npos) {
        what.remove_prefix(end + 2);
    }
    return shorten(what, 240);
}

}  // namespace

ApiResult<Json> parse_json_object(std::string_view bytes) {
    if (bytes.find_first_not_of(" \t\r\n") == std::string_view::npos) {
        return bad_json("The request body is empty; send a JSON object.");
    }
    if (nesting_depth(bytes, kMaxJsonDepth) > kMaxJsonDepth) {
        return bad_json("The JSON body nests deeper than " + std::to_string(kMaxJsonDepth) +
                        " levels.");
    }
    try {
        Json value = Json::parse(bytes.begin(), bytes.end());
        if (!value.is_object()) {
            return bad_json(std::string("The request body must be a JSON object, not ") +
                            value.type_name() + ".");
        }
        return value;
    } catch (const std::exception& e) {
        return bad_json("The request body is not valid JSON: " + without_mark(e.what()));
    }
}

std::string dump_json(const OrderedJson& value) {
    return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

std::string dump_json(const Json& value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string shorten(std::string_view text, size_t max_bytes) {
    if (text.size() <= max_bytes) return std::string(text);
    size_t end = max_bytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return std::string(text.substr(0, end)) + "...";
}

std::string range_text(double min, double max) {
    auto number = [](double x) {
        char text[40];
        const bool whole = std::floor(x) == x && std::fabs(x) < 1e16;
        std::snprintf(text, sizeof text, whole ? "%.0f" : "%g", x);
        return std::string(text);
    };
    return number(min) + " to " + number(max);
}

}  // namespace quire::server
