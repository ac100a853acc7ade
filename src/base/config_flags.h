// Command-line flags from an option table, for CLI11.
#pragma once

#include <memory>
#include <vector>

#include "base/config.h"

namespace CLI {
class App;
}

namespace quire {

// Registers one flag per row and remembers what was given. Booleans also get a --no- form and take
// a value only after '='. Must outlive the app's parse(). Not thread-safe.
class ConfigFlags {
 public:
    // Rows of the section `left_out` get no flag: they are set elsewhere or not at all.
    ConfigFlags(CLI::App& app, OptionTable table, std::string_view left_out = "");
    ~ConfigFlags();

    // After parse(): the rows that were given, checked by Config::load, not here.
    std::vector<ConfigEntry> given() const;

    ConfigFlags(const ConfigFlags&) = delete;
    ConfigFlags& operator=(const ConfigFlags&) = delete;

 private:
    struct Flag;
    std::vector<std::unique_ptr<Flag>> flags_;
};

}  // namespace quire
