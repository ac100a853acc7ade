#include "server/json_fields.h"

#include <cmath>

namespace quire::server {
namespace {

// The value as an integer when it is one: 16 and 16.0, not 16.5, true or "16".
std::optional<int64_t> as_integer(const Json& value) {
    if (value.is_number_unsigned()) {
        const auto number = value.get<uint64_t>();
        if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
        return static_cast<int64_t>(number);
    }
    if (value.is_number_integer()) return value.get<int64_t>();
    if (!value.is_number_float()) return std::nullopt;
    const double real = value.get<double>();
    if (std::floor(real) != real || std::fabs(real) > 9007199254740992.0) return std::nullopt;
    return static_cast<int64_t>(real);
}

}  // namespace

Fields::Fields(const Json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {}

const Json* Fields::any(const char* name) {
    known_.insert(name);
    const auto found = object_.find(name);
    if (found == object_.end() || found->is_null()) return nullptr;
    return &*found;
}

std::optional<bool> Fields::boolean(const char* name) {
    const Json* value = any(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_boolean()) return value->get<bool>();
    fail_type(name, "true or false", *value);
    return std::nullopt;
}

std::optional<int64_t> Fields::integer(const char* name, int64_t min, int64_t max) {
    const Json* value = any(name);
    if (value == nullptr) return std::nullopt;
    const auto number = as_integer(*value);
    if (number && *number >= min && *number <= max) return number;
    fail_type(name, "an integer from " + std::to_string(min) + " to " + std::to_string(max),
              *value);
    return std::nullopt;
}

std::optional<double> Fields::number(const char* name, double min, double max) {
    const Json* value = any(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_number()) {
        const double number = value->get<double>();
        if (number >= min && number <= max) return number;
    }
    fail_type(name, "a number from " + range_text(min, max), *value);
    return std::nullopt;
}

std::optional<std::string> Fields::text(const char* name, size_t max_bytes) {
    const Json* value = any(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) {
        fail_type(name, "a string", *value);
        return std::nullopt;
    }
    const auto& text = value->get_ref<const std::string&>();
    if (text.size() > max_bytes) {
        fail(name, "'" + prefix_ + name + "' is " + std::to_string(text.size()) +
                       " bytes long; at most " + std::to_string(max_bytes) + " are allowed.");
        return std::nullopt;
    }
    return text;
}

void Fields::fail(const std::string& name, const std::string& message, std::string code) {
    if (error_) return;
    error_ = bad_field(prefix_ + name, message, std::move(code));
}

void Fields::fail_type(const std::string& name, const std::string& wanted, const Json& got) {
    if (error_) return;
    std::string shown;
    if (got.is_array()) {
        shown = "an array of " + std::to_string(got.size());
    } else if (got.is_object()) {
        shown = "an object";
    } else {
        shown = shorten(dump_json(got), 48);
    }
    fail(name, "'" + prefix_ + name + "' must be " + wanted + "; got " + shown + ".");
}

std::vector<std::string> Fields::unknown() const {
    // Enough for a person to see the pattern; a body with a million fields gets no million back.
    constexpr size_t kMaxReported = 16;
    std::vector<std::string> names;
    for (const auto& [name, value] : object_.items()) {
        if (names.size() == kMaxReported) break;
        if (!known_.contains(name)) names.push_back(shorten(name, 64));
    }
    return names;
}

}  // namespace quire::server
