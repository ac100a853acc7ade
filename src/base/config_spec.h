// OptionSpec: one row per option is the one source of truth for flag, environment variable, file
// key, default, bounds, help and reference documentation. Tables are constexpr arrays (see
// options.cc).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace quire {

enum class OptionType : uint8_t {
    boolean,   // on/off, true/false, yes/no, 1/0
    integer,   // bounds: min, max
    size,      // bytes, as parse_size; bounds in bytes
    duration,  // nanoseconds, as parse_duration; bounds in nanoseconds
    text,
    list,    // comma-separated, repeated flags, or a YAML sequence
    choice,  // one of `choices`
};

struct OptionSpec {
    std::string_view key;  // snake_case: "kv_memory"
    OptionType type = OptionType::text;
    std::string_view fallback;  // the default, as text; empty text and lists are allowed
    std::string_view section;   // heading in help and reference
    std::string_view help;      // one sentence without a full stop
    std::string_view value_name = "";
    int64_t min = 0;
    int64_t max = std::numeric_limits<int64_t>::max();
    std::span<const std::string_view> choices = {};
    bool positional = false;  // given by place on the command line, not by flag
    bool secret = false;      // never printed
    bool names_file = false;  // of the configuration itself, which therefore cannot hold it
};

using OptionTable = std::span<const OptionSpec>;

std::string option_flag(const OptionSpec& spec);      // "--kv-memory"
std::string option_env(const OptionSpec& spec);       // "QUIRE_KV_MEMORY"
std::string option_yaml_key(const OptionSpec& spec);  // "kv-memory"

// What a value must look like: "a size like 64GiB, at least 16MiB".
std::string option_expectation(const OptionSpec& spec);

}  // namespace quire
