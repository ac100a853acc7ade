// Config: the values of a table of options and where each came from.
//
// Flag wins over environment, environment over file, file over default. Every value is checked
// against its row whatever its source, also when a stronger source overrides it. An unknown key in
// the file or an unknown QUIRE_ variable is an error that names the nearest known one. Immutable
// once loaded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/config_spec.h"
#include "base/result.h"

namespace quire {

struct ConfigEntry {
    std::string key;    // an OptionSpec::key; for the environment, the variable's name
    std::string value;  // as the user wrote it; lists comma-separated
};

struct ConfigValue {
    std::string text;
    std::string origin;
};

struct ConfigSources {
    std::vector<ConfigEntry> flags;
    std::vector<ConfigEntry> environment;  // QUIRE_ variables; see quire_environment()
    std::string file_name;                 // for messages; empty: no file
    std::string file_text;                 // YAML
};

class Config {
 public:
    // invalid with every problem found, one a line, each naming its source and what was expected.
    // REQUIRES: `table` outlives the Config.
    static Result<Config> load(OptionTable table, const ConfigSources& sources);

    // REQUIRES: `key` is in the table with that type.
    bool boolean(std::string_view key) const;
    int64_t integer(std::string_view key) const;
    uint64_t size(std::string_view key) const;
    int64_t duration_ns(std::string_view key) const;
    const std::string& text(std::string_view key) const;  // text and choice
    std::vector<std::string> list(std::string_view key) const;

    // "default", "flag --port", "environment QUIRE_PORT" or "quire.yaml:3".
    const std::string& origin(std::string_view key) const;
    bool is_default(std::string_view key) const { return origin(key) == "default"; }

    // YAML that loads back to the same values, each line with its origin as a comment; secrets
    // hidden.
    std::string effective() const;

 private:
    Config(OptionTable table, std::vector<ConfigValue> values)
        : table_(table), values_(std::move(values)) {}
    const ConfigValue& value_of(std::string_view key, OptionType type) const;

    OptionTable table_;
    std::vector<ConfigValue> values_;  // parallel to the table
};

// The entries of `environ` that start with QUIRE_, but for the reserved names of env_names.h.
std::vector<ConfigEntry> quire_environment(const char* const* environ);

// A file's text for ConfigSources; io names the file; invalid: it is over 1 MiB, or no regular
// file.
Result<std::string> read_config_file(const std::string& path);

// The key of the table nearest to `name` by edit distance, - and _ being the same; empty when none
// is near.
std::string_view nearest_key(OptionTable table, std::string_view name);

// The reference of all options as Markdown tables, one a section.
std::string config_reference(OptionTable table);

}  // namespace quire
