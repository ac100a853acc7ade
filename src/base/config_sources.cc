// Where configuration text comes from: the environment and a file.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "base/config.h"
#include "base/env_names.h"

namespace quire {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
};

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
    const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
    std::string text(kMaxFileBytes + 1, '\0');
    if (file) text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    if (!file || std::ferror(file.get()) != 0)
        return make_error(Code::io,
                          fmt::format("cannot read the configuration file {}: {}", path,
                                      std::generic_category().message(errno)),
                          errno);
    if (text.size() > kMaxFileBytes)
        return make_error(Code::invalid,
                          fmt::format("the configuration file {} is larger than 1 MiB", path));
    return text;
}

}  // namespace quire
