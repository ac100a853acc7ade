// How far two names are apart, for messages that suggest the nearest one. Pure.
#pragma once

#include <cstddef>
#include <string_view>

namespace quire {

// Fewest characters inserted, dropped or replaced that make `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace quire
