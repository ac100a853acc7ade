// Where benches find models and put their files: the user's cache folder, as tools/ uses it.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace quire::bench {

// $XDG_CACHE_HOME/quire, else ~/.cache/quire.
std::string cache_folder();

struct BenchModel {
    std::string name;  // "SmolLM2-135M", "Gemma-3-270M"; for other files, the file's name
    std::string path;
    bool smollm2() const { return name == "SmolLM2-135M"; }
    bool gemma3() const { return name == "Gemma-3-270M"; }
};

// The files given, or the two models of tools/models when none is. io names the missing file and
// how to get it.
Result<std::vector<BenchModel>> find_models(const std::vector<std::string>& paths);

// invalid: neither `dir` nor the folder that is to hold it exists; a folder that was mistyped is
// not to be made up from the root on.
Status check_scratch_dir(const std::string& dir);

// An empty folder, gone with the object.
class ScratchFolder {
 public:
    // Under `parent`, which is created when missing. io names the folder.
    static Result<ScratchFolder> create(const std::string& parent);
    ScratchFolder(ScratchFolder&& other) noexcept : path_(std::move(other.path_)) {
        other.path_.clear();
    }
    ScratchFolder& operator=(ScratchFolder&&) = delete;
    ~ScratchFolder();

    const std::string& path() const { return path_; }

 private:
    explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
    std::string path_;
};

}  // namespace quire::bench
