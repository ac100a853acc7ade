// A directory for one test, deleted with the object. Header only.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/check.h"

namespace quire::testing {

class TempDir {
 public:
    TempDir() {
        const char* base = std::getenv("TMPDIR");
        path_ = std::string(base != nullptr ? base : "/tmp") + "/quire-tier-XXXXXX";
        QUIRE_CHECK(::mkdtemp(path_.data()) != nullptr, "cannot make a test directory in TMPDIR");
    }
    ~TempDir() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;

    const std::string& path() const { return path_; }
    std::string file(const std::string& name) const { return path_ + "/" + name; }

    // Bytes of all files, by their sizes.
    uint64_t bytes() const {
        uint64_t total = 0;
        std::error_code error;
        for (const auto& entry : std::filesystem::directory_iterator(path_, error)) {
            uint64_t size = entry.file_size(error);
            if (!error) total += size;
        }
        return total;
    }

 private:
    std::string path_;
};

}  // namespace quire::testing
