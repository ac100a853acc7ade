// Where configuration text comes from: the environment and a file.
#include <algorithm>

#include "base/config.h"
#include "base/env_names.h"
#include "base/regular_file.h"

namespace quire {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

}  // namespace

std::vector<ConfigEntry> quire_environment(const char* const* environ) {
    std::vector<ConfigEntry> entries;
    for (; environ != nullptr && *environ != nullptr; ++environ) {
        const std::string_view line(*environ);
        const size_t equals = std::min(line.find('='), line.size());
        const std::string_view name = line.substr(0, equals);
        if (!name.starts_with(kEnvPrefix) ||
            std::ranges::find(kReservedEnv, name) != kReservedEnv.end())
            continue;
        entries.push_back(
            {std::string(name), std::string(line.substr(std::min(equals + 1, line.size())))});
    }
    return entries;
}

Result<std::string> read_config_file(const std::string& path) {
    return read_regular_file(path, "the configuration file", kMaxFileBytes);
}

}  // namespace quire
