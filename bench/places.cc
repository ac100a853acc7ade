#include "bench/places.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <stdlib.h>

namespace fs = std::filesystem;

namespace quire::bench {
namespace {

struct KnownModel {
    std::string_view name;
    std::string_view file;
};
constexpr KnownModel kKnown[] = {
    {"SmolLM2-135M", "SmolLM2-135M-Instruct.Q4_1.gguf"},
    {"Gemma-3-270M", "gemma-3-270m-q4_k_m.gguf"},
};

BenchModel named(const std::string& path) {
    const fs::path file(path);
    for (const KnownModel& known : kKnown)
        if (file.filename() == known.file) return {std::string(known.name), path};
    return {file.stem().string(), path};
}

std::string variable(const char* name) {
    // tidy: allow(getenv): the system's own variables, as every program reads them
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

}  // namespace

std::string cache_folder() {
    if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
        return cache + "/quire";
    const std::string home = variable("HOME");
    return (home.empty() ? "/tmp" : home + "/.cache") + "/quire";
}

Result<std::vector<BenchModel>> find_models(const std::vector<std::string>& paths) {
    std::vector<BenchModel> models;
    for (const std::string& path : paths) models.push_back(named(path));
    if (paths.empty())
        for (const KnownModel& known : kKnown)
            models.push_back(named(cache_folder() + "/models/" + std::string(known.file)));
    for (const BenchModel& model : models) {
        std::error_code error;
        if (fs::is_regular_file(model.path, error)) continue;
        const std::string remedy =
            paths.empty() ? "; fetch it with: tools/models fetch all" : "; give a GGUF file";
        return make_error(Code::io, model.path + " is missing" + remedy, ENOENT);
    }
    return models;
}

Status check_scratch_dir(const std::string& dir) {
    std::error_code error;
    const fs::path path = fs::absolute(dir, error).lexically_normal();
    const fs::path bare =
        path.has_filename() ? path : path.parent_path();  // without "/" at the end
    if (fs::is_directory(bare, error)) return {};
    if (!fs::exists(bare, error) && bare.parent_path() != bare.root_path() &&
        fs::is_directory(bare.parent_path(), error))
        return {};
    return make_error(
        Code::invalid,
        "--dir " + dir + " is not a folder, nor a new one in a folder; create it first");
}

Result<ScratchFolder> ScratchFolder::create(const std::string& parent) {
    std::error_code error;
    fs::create_directories(parent, error);
    std::string path = parent + "/run-XXXXXX";
    if (error || ::mkdtemp(path.data()) == nullptr) {
        const int code = error ? error.value() : errno;
        return make_error(Code::io,
                          "cannot create a folder in " + parent + ": " + std::strerror(code) +
                              "; give one that can be written with --dir",
                          code);
    }
    return ScratchFolder(std::move(path));
}

ScratchFolder::~ScratchFolder() {
    if (path_.empty()) return;
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

}  // namespace quire::bench
