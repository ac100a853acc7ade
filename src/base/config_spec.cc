#include "base/config_spec.h"

#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/env_names.h"
#include "base/units.h"

namespace quire {
namespace {

std::string dashed(std::string_view key) {
    std::string out(key);
    for (char& c : out)
        if (c == '_') c = '-';
    return out;
}

std::string bound_text(const OptionSpec& spec, int64_t bound) {
    switch (spec.type) {
        case OptionType::size:
            return exact_size(static_cast<uint64_t>(bound));
        case OptionType::duration:
            return exact_duration(bound);
        default:
            return std::to_string(bound);
    }
}

std::string bounds(const OptionSpec& spec) {
    std::string text;
    if (spec.min > 0) text += ", at least " + bound_text(spec, spec.min);
    if (spec.max != std::numeric_limits<int64_t>::max())
        text += ", at most " + bound_text(spec, spec.max);
    return text;
}

}  // namespace

std::string option_flag(const OptionSpec& spec) {
    return "--" + dashed(spec.key);
}

std::string option_env(const OptionSpec& spec) {
    std::string out(kEnvPrefix);
    for (const char c : spec.key)
        out += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return out;
}

std::string option_yaml_key(const OptionSpec& spec) {
    return dashed(spec.key);
}

std::string option_expectation(const OptionSpec& spec) {
    switch (spec.type) {
        case OptionType::boolean:
            return "on or off";
        case OptionType::integer:
            return "a whole number" + bounds(spec);
        case OptionType::size:
            return "a size like 64GiB or 512MB" + bounds(spec);
        case OptionType::duration:
            return "a duration like 30s or 5m" + bounds(spec);
        case OptionType::text:
            return "text";
        case OptionType::list:
            return "a list";
        case OptionType::choice:
            return fmt::format("one of {}", fmt::join(spec.choices, ", "));
    }
    return {};
}

}  // namespace quire
