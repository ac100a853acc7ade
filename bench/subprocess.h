// Running a program and reading what it prints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire::bench {

// Starts words[0] (found on the PATH if it has no slash) without a shell and returns its standard
// output; its standard error is dropped. io: it cannot be started, or failed; timeout: it ran
// longer than `timeout_ns` and was killed.
Result<std::string> run_program(const std::vector<std::string>& words, int64_t timeout_ns);

}  // namespace quire::bench
