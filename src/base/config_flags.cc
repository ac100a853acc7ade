#include "base/config_flags.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace quire {

// Stable addresses that CLI11 writes to.
struct ConfigFlags::Flag {
    std::string key;
    CLI::Option* option = nullptr;
    std::string value;
    std::vector<std::string> values;
};

namespace {

std::string help_of(const OptionSpec& spec) {
    return fmt::format("{} [{}]", spec.help, spec.fallback.empty() ? "none" : spec.fallback);
}

std::string placeholder(const OptionSpec& spec) {
    if (!spec.value_name.empty()) return std::string(spec.value_name);
    switch (spec.type) {
        case OptionType::boolean:
            return "";
        case OptionType::integer:
            return "N";
        case OptionType::size:
            return "SIZE";
        case OptionType::duration:
            return "TIME";
        case OptionType::text:
            return "TEXT";
        case OptionType::list:
            return "LIST";
        case OptionType::choice:
            return fmt::format("{}", fmt::join(spec.choices, "|"));
    }
    return "";
}

}  // namespace

ConfigFlags::ConfigFlags(CLI::App& app, OptionTable table, std::string_view left_out) {
    for (const OptionSpec& spec : table) {
        if (spec.section == left_out) continue;
        Flag& flag = *flags_.emplace_back(std::make_unique<Flag>());
        flag.key = spec.key;
        const std::string name = option_flag(spec);
        if (spec.positional) {
            flag.option = app.add_option(flag.key, flag.value, help_of(spec));
        } else if (spec.type == OptionType::boolean) {
            const std::string both = fmt::format("{0}{{on}},--no-{1}{{off}}", name, name.substr(2));
            flag.option = app.add_flag(both, flag.value, help_of(spec));
        } else if (spec.type == OptionType::list) {
            flag.option = app.add_option(name, flag.values, help_of(spec))->expected(1);
            flag.option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
        } else {
            flag.option = app.add_option(name, flag.value, help_of(spec));
        }
        if (spec.type != OptionType::boolean) flag.option->type_name(placeholder(spec));
        flag.option->group(std::string(spec.section));
    }
}

ConfigFlags::~ConfigFlags() = default;

std::vector<ConfigEntry> ConfigFlags::given() const {
    std::vector<ConfigEntry> entries;
    for (const auto& flag : flags_) {
        if (flag->option->count() == 0) continue;
        const std::string joined = fmt::format("{}", fmt::join(flag->values, ","));
        entries.push_back({flag->key, flag->values.empty() ? flag->value : joined});
    }
    return entries;
}

}  // namespace quire
