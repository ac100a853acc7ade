#include "apps/quire/commands/command_line.h"

#include <iostream>

#include <CLI/CLI.hpp>

namespace quire::commands {

std::optional<int> parse_flags(CLI::App& app, int argc, const char* const* argv) {
    try {
        app.parse(argc, argv);
        return std::nullopt;
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? kExitOk : kExitError;
    }
}

int fail(std::string_view command, std::string_view message) {
    std::cerr << "quire " << command << ": " << message << "\n";
    return kExitError;
}

}  // namespace quire::commands
