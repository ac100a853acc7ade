// Config::load: values from the weakest source to the strongest, and every problem on the way.
#include <algorithm>
#include <cctype>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/config.h"
#include "base/config_value.h"
#include "base/config_yaml.h"
#include "base/env_names.h"

namespace quire {
namespace {

std::string key_of_yaml(std::string_view name) {
    std::string key(name);
    std::ranges::replace(key, '-', '_');
    return key;
}

// The part after QUIRE_, in lower case; not a key if the name has lower case itself.
std::string key_of_env(std::string_view name) {
    std::string key(name.substr(std::min(kEnvPrefix.size(), name.size())));
    for (char& c : key) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return key;
}

class Loader {
 public:
    explicit Loader(OptionTable table) : table_(table), lines_(table.size(), 0) {
        for (const OptionSpec& spec : table) {
            QUIRE_CHECK(spec.fallback.empty() || check_value(spec, spec.fallback).ok(),
                        "an option's default does not fit its own row");
            values_.push_back({std::string(spec.fallback), "default"});
        }
    }

    void take_file(const std::string& name, const std::vector<YamlEntry>& entries) {
        for (const YamlEntry& entry : entries) take_file_entry(name, entry);
    }

    void take_environment(const std::vector<ConfigEntry>& entries) {
        for (const ConfigEntry& entry : entries) {
            const std::string origin = "environment " + entry.key;
            const std::string key = key_of_env(entry.key);
            const std::optional<size_t> row = find(key);
            if (row && option_env(table_[*row]) == entry.key) {
                take(*row, entry.value, origin);
                continue;
            }
            const std::optional<size_t> near = find(nearest_key(table_, key));
            unknown(origin, "variable", near ? option_env(table_[*near]) : "");
        }
    }

    void take_flags(const std::vector<ConfigEntry>& entries) {
        for (const ConfigEntry& entry : entries) {
            const std::optional<size_t> row = find(entry.key);
            QUIRE_CHECK(row.has_value(), "a flag that is not in the option table");
            const OptionSpec& spec = table_[*row];
            take(*row, entry.value, spec.positional ? "command line" : "flag " + option_flag(spec));
        }
    }

    const std::vector<std::string>& problems() const { return problems_; }
    std::vector<ConfigValue> values() && { return std::move(values_); }

 private:
    std::optional<size_t> find(std::string_view key) const {
        const auto row = std::ranges::find(table_, key, &OptionSpec::key);
        return row == table_.end() ? std::nullopt : std::optional<size_t>(row - table_.begin());
    }

    void take(size_t row, const std::string& text, const std::string& origin) {
        const Status status = check_value(table_[row], text);
        if (status.ok())
            values_[row] = {text, origin};
        else
            problem(origin, option_yaml_key(table_[row]) + ": " + status.error().message);
    }

    void take_file_entry(const std::string& name, const YamlEntry& entry) {
        const std::string origin = fmt::format("{}:{}", name, entry.line);
        const std::string key = key_of_yaml(entry.key);
        const std::optional<size_t> row = find(key);
        if (!row) {
            const std::optional<size_t> near = find(nearest_key(table_, key));
            unknown(origin, fmt::format("key '{}'", entry.key),
                    near ? option_yaml_key(table_[*near]) : "");
            return;
        }
        const OptionSpec& spec = table_[*row];
        if (lines_[*row] != 0)
            problem(origin,
                    fmt::format("'{}' was given in line {} already", entry.key, lines_[*row]));
        else if (spec.names_file)
            problem(origin,
                    fmt::format("{}: a configuration file cannot name another; give {} or "
                                "set {}",
                                option_yaml_key(spec), option_flag(spec), option_env(spec)));
        else if (entry.is_list && spec.type != OptionType::list)
            problem(origin, fmt::format("{}: expected {}, got a list", option_yaml_key(spec),
                                        option_expectation(spec)));
        else
            take(*row, entry.value, origin);
        lines_[*row] = entry.line;
    }

    void unknown(const std::string& origin, std::string_view what, const std::string& nearest) {
        problem(origin, fmt::format("unknown {}{}", what,
                                    nearest.empty() ? "; see --help for all options"
                                                    : fmt::format("; did you mean {}?", nearest)));
    }

    void problem(const std::string& origin, const std::string& what) {
        problems_.push_back(origin + ": " + what);
    }

    OptionTable table_;
    std::vector<ConfigValue> values_;
    std::vector<int> lines_;  // where the file gave a row; 0: nowhere
    std::vector<std::string> problems_;
};

}  // namespace

Result<Config> Config::load(OptionTable table, const ConfigSources& sources) {
    const Result<std::vector<YamlEntry>> entries = read_yaml_entries(sources.file_text);
    if (!entries.ok())
        return make_error(Code::invalid, sources.file_name + ": " + entries.error().message);
    Loader loader(table);
    loader.take_file(sources.file_name, *entries);
    loader.take_environment(sources.environment);
    loader.take_flags(sources.flags);
    if (!loader.problems().empty())
        return make_error(Code::invalid, fmt::format("{}", fmt::join(loader.problems(), "\n")));
    return Config(table, std::move(loader).values());
}

}  // namespace quire
