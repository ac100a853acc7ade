// Configuration as text: the effective values, and the reference of all options.
#include <algorithm>

#include <fmt/format.h>

#include "base/config.h"
#include "base/config_value.h"

namespace quire {
namespace {

// A double-quoted YAML scalar.
std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            out += fmt::format("\\{}", c);
        else if (byte < 0x20 || byte == 0x7f)
            out += fmt::format("\\x{:02x}", byte);
        else
            out += c;
    }
    return out + "\"";
}

std::string yaml_value(const OptionSpec& spec, const std::string& text) {
    if (spec.type == OptionType::text) return quoted(text);
    if (spec.type != OptionType::list) return text;
    std::string out = "[";
    for (const std::string& item : split_list(text))
        out += (out.size() > 1 ? ", " : "") + quoted(item);
    return out + "]";
}

std::vector<std::string_view> sections_of(OptionTable table) {
    std::vector<std::string_view> sections;
    for (const OptionSpec& spec : table)
        if (std::ranges::find(sections, spec.section) == sections.end())
            sections.push_back(spec.section);
    return sections;
}

std::string reference_row(const OptionSpec& spec) {
    const std::string name = spec.positional ? std::string(spec.value_name) : option_flag(spec);
    const bool words = spec.type == OptionType::text || spec.type == OptionType::list;
    const std::string value = words && !spec.value_name.empty() && !spec.positional
                                  ? fmt::format("`{}`", spec.value_name)
                                  : option_expectation(spec);
    const std::string file_key = spec.names_file ? "" : fmt::format("`{}`", option_yaml_key(spec));
    return fmt::format("| `{}` | `{}` | {} | {} | {} | {} |\n", name, option_env(spec), file_key,
                       value, spec.fallback.empty() ? "" : fmt::format("`{}`", spec.fallback),
                       spec.help);
}

}  // namespace

std::string Config::effective() const {
    std::string out;
    for (size_t i = 0; i < table_.size(); ++i) {
        const OptionSpec& spec = table_[i];
        if (spec.names_file) continue;  // so that what is printed can be read back
        const bool hidden = spec.secret && !values_[i].text.empty();
        const std::string line = hidden ? fmt::format("# {}: (hidden)", option_yaml_key(spec))
                                        : fmt::format("{}: {}", option_yaml_key(spec),
                                                      yaml_value(spec, values_[i].text));
        out += fmt::format("{:<40} # {}\n", line, values_[i].origin);
    }
    return out;
}

std::string config_reference(OptionTable table) {
    std::string out;
    for (const std::string_view section : sections_of(table)) {
        out += fmt::format(
            "{}## {}\n\n| flag | environment | file key | value | default | meaning |\n"
            "|---|---|---|---|---|---|\n",
            out.empty() ? "" : "\n", section);
        for (const OptionSpec& spec : table)
            if (spec.section == section) out += reference_row(spec);
    }
    return out;
}

}  // namespace quire
