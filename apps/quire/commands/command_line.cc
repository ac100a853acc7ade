#include "apps/quire/commands/command_line.h"

#include <iostream>

#include <CLI/CLI.hpp>

#include "base/edit_distance.h"

namespace quire::commands {
namespace {

struct Nearest {
    std::string flag;  // empty: none is near
    size_t distance = 4;
};

// Over the options of the command and of the subcommands that were named.
void look_for(const CLI::App& app, const std::string& name, Nearest* best) {
    for (const CLI::Option* option : app.get_options()) {
        for (const std::string& known : option->get_lnames()) {
            const size_t distance = edit_distance(name, "--" + known);
            if (distance < best->distance) *best = {"--" + known, distance};
        }
    }
    for (const CLI::App* inner : app.get_subcommands()) look_for(*inner, name, best);
}

// One line for the first flag that is not known.
int unknown_flag(const CLI::App& app) {
    const std::vector<std::string> extras = app.remaining(true);
    for (const std::string& argument : extras) {
        if (!argument.starts_with("-")) continue;
        Nearest best;
        look_for(app, argument.substr(0, argument.find('=')), &best);
        const std::string& nearest = best.flag;
        std::cerr << app.get_name() << ": there is no " << argument
                  << (nearest.empty() ? "" : "; did you mean " + nearest + "?")
                  << " (--help lists the flags)\n";
        return kExitError;
    }
    std::cerr << app.get_name() << ": '" << extras.front()
              << "' is one argument too many (--help lists them)\n";
    return kExitError;
}

}  // namespace

std::optional<int> parse_flags(CLI::App& app, int argc, const char* const* argv) {
    try {
        app.parse(argc, argv);
        return std::nullopt;
    } catch (const CLI::ExtrasError&) {
        return unknown_flag(app);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? kExitOk : kExitError;
    }
}

int fail(std::string_view command, std::string_view message) {
    std::cerr << "quire " << command << ": " << message << "\n";
    return kExitError;
}

}  // namespace quire::commands
