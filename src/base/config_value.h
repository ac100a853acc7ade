// Checking one option value against its row. Internal to Config.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/config_spec.h"
#include "base/result.h"

namespace quire {

Result<bool> parse_boolean(std::string_view text);
// integer, size and duration, in the row's unit and within its bounds.
Result<int64_t> parse_number(const OptionSpec& spec, std::string_view text);
// Splits at commas; blanks around items go, empty items go.
std::vector<std::string> split_list(std::string_view text);
// invalid with "expected ..., got '...'".
Status check_value(const OptionSpec& spec, std::string_view text);

}  // namespace quire
