// What the reporting commands share: parsing flags, and exit codes.
#pragma once

#include <optional>
#include <string_view>

namespace CLI {
class App;
}

namespace quire::commands {

inline constexpr int kExitOk = 0;
inline constexpr int kExitNotOk = 1;  // it ran, and found something wrong: damage, a missed bar
inline constexpr int kExitError = 2;  // it could not run

// Nothing: go on. Otherwise help or an error was printed and this is the exit code. `argv[0]` is
// the command's own name.
std::optional<int> parse_flags(CLI::App& app, int argc, const char* const* argv);

// "quire inspect: message" on stderr; returns kExitError.
int fail(std::string_view command, std::string_view message);

}  // namespace quire::commands
