// A file for one test, gone with the object. Header only; used by tests of every layer.
#pragma once

#include <string>

#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"

namespace quire {

class ScratchFile {
 public:
    // Opened for reading and writing under $TMPDIR, else /tmp.
    ScratchFile() {
        const char* folder = std::getenv("TMPDIR");
        path_ = std::string(folder != nullptr ? folder : "/tmp") + "/quire-test-XXXXXX";
        fd_ = ::mkstemp(path_.data());
        QUIRE_CHECK(fd_ >= 0, "cannot create a scratch file; set TMPDIR to a writable folder");
    }
    ~ScratchFile() {
        ::close(fd_);
        ::unlink(path_.c_str());
    }
    ScratchFile(const ScratchFile&) = delete;
    ScratchFile& operator=(const ScratchFile&) = delete;

    int fd() const { return fd_; }
    const std::string& path() const { return path_; }

 private:
    std::string path_;
    int fd_ = -1;
};

}  // namespace quire
