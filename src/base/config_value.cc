#include "base/config_value.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/units.h"

namespace quire {
namespace {

Error mismatch(const OptionSpec& spec, std::string_view text) {
    constexpr size_t kShown = 80;
    const std::string got = spec.secret ? "a value that is not"
                                        : fmt::format("'{}{}'", text.substr(0, kShown),
                                                      text.size() > kShown ? "..." : "");
    return make_error(Code::invalid,
                      fmt::format("expected {}, got {}", option_expectation(spec), got));
}

Result<int64_t> parse_integer(std::string_view text) {
    int64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, ec] = std::from_chars(text.data(), end, value);
    if (ec != std::errc{} || stop != end) return make_error(Code::invalid, "not a whole number");
    return value;
}

Result<int64_t> parse_unit(OptionType type, std::string_view text) {
    if (type == OptionType::integer) return parse_integer(text);
    if (type == OptionType::duration) return parse_duration(text);
    const Result<uint64_t> bytes = parse_size(text);
    QUIRE_TRY(bytes);
    return static_cast<int64_t>(*bytes);
}

}  // namespace

Result<bool> parse_boolean(std::string_view text) {
    constexpr std::string_view kOn[] = {"on", "true", "yes", "1"};
    constexpr std::string_view kOff[] = {"off", "false", "no", "0"};
    if (std::ranges::find(kOn, text) != std::end(kOn)) return true;
    if (std::ranges::find(kOff, text) != std::end(kOff)) return false;
    return make_error(Code::invalid, "not on or off");
}

Result<int64_t> parse_number(const OptionSpec& spec, std::string_view text) {
    const Result<int64_t> value = parse_unit(spec.type, text);
    if (!value.ok() || *value < spec.min || *value > spec.max) return mismatch(spec, text);
    return *value;
}

std::vector<std::string> split_list(std::string_view text) {
    std::vector<std::string> items;
    while (!text.empty()) {
        const size_t comma = std::min(text.find(','), text.size());
        std::string_view item = text.substr(0, comma);
        text.remove_prefix(std::min(comma + 1, text.size()));
        while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
        while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
        if (!item.empty()) items.emplace_back(item);
    }
    return items;
}

Status check_value(const OptionSpec& spec, std::string_view text) {
    switch (spec.type) {
        case OptionType::boolean:
            if (!parse_boolean(text).ok()) return mismatch(spec, text);
            return {};
        case OptionType::integer:
        case OptionType::size:
        case OptionType::duration:
            QUIRE_TRY(parse_number(spec, text));
            return {};
        case OptionType::choice:
            if (std::ranges::find(spec.choices, text) == spec.choices.end())
                return mismatch(spec, text);
            return {};
        case OptionType::text:
        case OptionType::list:
            return {};
    }
    return {};
}

}  // namespace quire
