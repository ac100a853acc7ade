// Opening files that a person names. A pipe or a terminal in the place of a file would let the
// program wait for ever, and silently; here it is an error that says so.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire {

// A file descriptor for reading, which the caller closes. io: errno as detail; invalid: no regular
// file. `what` is the file's part in the message: "the model".
Result<int> open_regular_file(const std::string& path, std::string_view what);

// All of a file. invalid too: more than `bytes_max`.
Result<std::string> read_regular_file(const std::string& path, std::string_view what,
                                      uint64_t bytes_max);

}  // namespace quire
