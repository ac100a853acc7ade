#include "base/config.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/config_value.h"
#include "base/edit_distance.h"

namespace quire {
namespace {

std::optional<size_t> find_key(OptionTable table, std::string_view key) {
    const auto row = std::ranges::find(table, key, &OptionSpec::key);
    return row == table.end() ? std::nullopt : std::optional<size_t>(row - table.begin());
}

}  // namespace

std::string_view nearest_key(OptionTable table, std::string_view name) {
    std::string wanted(name);
    std::ranges::replace(wanted, '-', '_');
    std::string_view best;
    size_t least = std::max<size_t>(2, wanted.size() / 3) + 1;
    for (const OptionSpec& spec : table) {
        const size_t distance = edit_distance(wanted, spec.key);
        if (distance < least) {
            least = distance;
            best = spec.key;
        }
    }
    return best;
}

const ConfigValue& Config::value_of(std::string_view key, OptionType type) const {
    const std::optional<size_t> row = find_key(table_, key);
    QUIRE_CHECK(row.has_value(), "no such option");
    const OptionType actual = table_[*row].type;
    QUIRE_CHECK(actual == type || (actual == OptionType::choice && type == OptionType::text),
                "option read as another type");
    return values_[*row];
}

bool Config::boolean(std::string_view key) const {
    return *parse_boolean(value_of(key, OptionType::boolean).text);
}

int64_t Config::integer(std::string_view key) const {
    return *parse_number(table_[*find_key(table_, key)], value_of(key, OptionType::integer).text);
}

uint64_t Config::size(std::string_view key) const {
    const std::string& text = value_of(key, OptionType::size).text;
    return static_cast<uint64_t>(*parse_number(table_[*find_key(table_, key)], text));
}

int64_t Config::duration_ns(std::string_view key) const {
    return *parse_number(table_[*find_key(table_, key)], value_of(key, OptionType::duration).text);
}

const std::string& Config::text(std::string_view key) const {
    return value_of(key, OptionType::text).text;
}

std::vector<std::string> Config::list(std::string_view key) const {
    return split_list(value_of(key, OptionType::list).text);
}

const std::string& Config::origin(std::string_view key) const {
    const std::optional<size_t> row = find_key(table_, key);
    QUIRE_CHECK(row.has_value(), "no such option");
    return values_[*row].origin;
}

}  // namespace quire
