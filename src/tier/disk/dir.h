// DiskDir: a directory that is ours, locked against other processes, of a version we understand.
//
// Holds an open descriptor of the directory and of its LOCK file; files inside are named relative
// to it. The lock is the kernel's (flock), so it ends with the process however that dies; it is on
// the directory itself and on LOCK, which some network file systems need and anybody can delete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire {

inline constexpr uint32_t kDiskFormatVersion = 1;

// An owned file descriptor.
class Fd {
 public:
    explicit Fd(int fd = -1) : fd_(fd) {}
    Fd(Fd&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
    Fd& operator=(Fd&& other) noexcept;
    ~Fd() { reset(); }
    int get() const { return fd_; }
    bool valid() const { return fd_ >= 0; }
    void reset();

 private:
    int fd_;
};

// "what NAME: strerror", Code::full for ENOSPC and EDQUOT, otherwise Code::io; detail is errno.
Error errno_error(const std::string& what, int error);

// Size of the file system that `path`, or the nearest folder above it that exists, lies on; 0 when
// it does not say.
uint64_t device_bytes(const std::string& path);

// Fills `into` from `offset`. io, or corrupt when the file ends before.
Status read_exact(int fd, uint64_t offset, std::span<std::byte> into);

enum class DirUse : uint8_t {
    write,  // create, lock, read and write; read-only when the file system says so
    read,   // lock and read
};

class DiskDir {
 public:
    static Result<std::unique_ptr<DiskDir>> open(const std::string& path, DirUse use);

    const std::string& path() const { return path_; }
    bool read_only() const { return read_only_; }

    struct File {
        std::string name;
        uint64_t bytes = 0;  // of a regular file, else 0
        bool regular = true;
    };
    Result<std::vector<File>> list() const;

    // `flags` as for open(2). The error names the file. Never waits: what is no regular file (a
    // pipe, a device, a folder, a link) is invalid, with a remedy.
    Result<Fd> open_file(const std::string& name, int flags) const;
    Status remove(const std::string& name) const;
    Status rename(const std::string& from, const std::string& to) const;
    // Free for us on the file system; 0 when it does not say.
    uint64_t free_bytes() const;
    // False when the directory was deleted or emptied under us: what is written would be lost.
    bool still_ours() const;
    // Makes renames, creations and deletions durable.
    Status sync() const;

 private:
    DiskDir(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

    Result<std::string> read_small(const char* name) const;
    Error in_use() const;
    Status lock(DirUse use);
    Status check_format(DirUse use);
    Status write_format();

    std::string path_;
    Fd fd_;
    Fd lock_;
    bool read_only_ = false;
};

}  // namespace quire
