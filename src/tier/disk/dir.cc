#include "tier/disk/dir.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "format/segment.h"

namespace quire {
namespace {

constexpr const char* kLockName = "LOCK";
constexpr const char* kFormatName = "FORMAT";
// The root of a fresh file system has it, and it cannot be used for anything else.
constexpr const char* kLostAndFound = "lost+found";
constexpr std::string_view kFormatPrefix = "quire disk cache, format ";

std::string format_text() {
    return std::string(kFormatPrefix) + std::to_string(kDiskFormatVersion) + "\n";
}

bool is_read_only_errno(int error) {
    return error == EROFS || error == EACCES || error == EPERM;
}

std::string_view kind_of(mode_t mode) {
    if (S_ISDIR(mode)) return "a folder";
    if (S_ISLNK(mode)) return "a symbolic link";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISSOCK(mode)) return "a socket";
    return "a device";
}

// Without its FORMAT a directory is not ours: deleting that alone would not help.
Error not_regular(const std::string& dir, const std::string& name, mode_t mode) {
    const char* remedy = name == kFormatName ? "use another directory, or delete this one"
                                             : "delete it, or use another directory";
    return make_error(Code::invalid, dir + "/" + name + " is " + std::string(kind_of(mode)) +
                                         ", not a regular file; " + remedy);
}

std::optional<uint32_t> parse_format(std::string_view text) {
    if (!text.starts_with(kFormatPrefix)) return std::nullopt;
    text.remove_prefix(kFormatPrefix.size());
    uint32_t version = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
    if (error != std::errc() || end == text.data()) return std::nullopt;
    return version;
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
    if (this != &other) {
        reset();
        fd_ = other.fd_;
        other.fd_ = -1;
    }
    return *this;
}

void Fd::reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

Error errno_error(const std::string& what, int error) {
    Code code = error == ENOSPC || error == EDQUOT ? Code::full : Code::io;
    return make_error(code, what + ": " + std::generic_category().message(error), error);
}

Status read_exact(int fd, uint64_t offset, std::span<std::byte> into) {
    while (!into.empty()) {
        ssize_t n = ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno_error("read", errno);
        if (n == 0) return make_error(Code::corrupt, "the file ends inside the slab");
        into = into.subspan(static_cast<size_t>(n));
        offset += static_cast<uint64_t>(n);
    }
    return {};
}

uint64_t device_bytes(const std::string& path) {
    std::error_code error;
    std::filesystem::path folder = std::filesystem::absolute(path, error);
    struct statvfs st{};
    while (::statvfs(folder.c_str(), &st) != 0) {
        if (folder == folder.parent_path()) return 0;
        folder = folder.parent_path();
    }
    return static_cast<uint64_t>(st.f_blocks) * st.f_frsize;
}

Result<std::string> DiskDir::read_small(const char* name) const {
    auto fd = open_file(name, O_RDONLY);
    if (!fd.ok()) return fd.error();
    char text[256];
    ssize_t got = ::pread(fd->get(), text, sizeof(text), 0);
    if (got < 0) return errno_error("read " + path_ + "/" + name, errno);
    return std::string(text, static_cast<size_t>(got));
}

Result<std::unique_ptr<DiskDir>> DiskDir::open(const std::string& path, DirUse use) {
    if (use != DirUse::read) {
        std::error_code error;
        std::filesystem::create_directories(path, error);
        // EROFS and friends show up below, where an existing directory may still be served.
        if (error && !std::filesystem::is_directory(path)) {
            return make_error(Code::io,
                              "disk directory " + path + " cannot be created: " + error.message() +
                                  "; choose a writable --disk directory",
                              error.value());
        }
    }
    Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) {
        Error error = errno_error("disk directory " + path + " cannot be opened", errno);
        error.message += "; name a directory that exists and can be read";
        return error;
    }
    std::unique_ptr<DiskDir> dir(new DiskDir(path, std::move(fd)));
    dir->read_only_ = use == DirUse::read;
    QUIRE_TRY(dir->check_format(use));
    return dir;
}

// Decides whether the directory is ours *before* anything is created in it.
Status DiskDir::check_format(DirUse use) {
    auto text = read_small(kFormatName);
    if (text.ok()) {
        auto version = parse_format(*text);
        if (!version) {
            return make_error(Code::invalid, path_ +
                                                 "/FORMAT is damaged or not Quire's; use another "
                                                 "directory, or delete this one");
        }
        QUIRE_TRY(lock(use));
        if (version != kDiskFormatVersion) {
            return make_error(Code::unsupported,
                              "disk directory " + path_ + " has format " +
                                  std::to_string(*version) + ", this build uses format " +
                                  std::to_string(kDiskFormatVersion) +
                                  "; use another directory, or delete this one to throw the old "
                                  "cache away");
        }
        return {};
    }
    if (text.code() == Code::io && text.error().detail != ENOENT) {
        Error error = text.error();
        error.message += "; use another directory";
        return error;
    }
    if (text.code() != Code::io) return text.error();
    if (use == DirUse::read) {
        return make_error(Code::invalid,
                          path_ + " is not a Quire disk cache (it has no FORMAT file)");
    }
    auto files = list();
    if (!files.ok()) return files.error();
    for (const File& file : *files) {
        // A first opening that died before FORMAT was renamed leaves only these.
        if (file.name == kLockName || file.name == std::string(kFormatName) + ".tmp") continue;
        if (file.name == kLostAndFound) continue;
        return make_error(Code::invalid, "disk directory " + path_ +
                                             " holds files of something else (" + file.name +
                                             "); use an empty directory");
    }
    QUIRE_TRY(lock(use));
    if (read_only_) {
        return make_error(Code::io, "disk directory " + path_ +
                                        " is empty and cannot be written; choose a writable one");
    }
    return write_format();
}

Error DiskDir::in_use() const {
    auto holder = read_small(kLockName);
    std::string pid = holder.ok() ? *holder : "";
    while (!pid.empty() && pid.back() == '\n') pid.pop_back();
    return make_error(Code::busy, "disk directory " + path_ + " is in use by process " +
                                      (pid.empty() ? "(unknown)" : pid) +
                                      "; stop it or use another directory");
}

Status DiskDir::lock(DirUse use) {
    const bool write = use != DirUse::read;
    // Before LOCK is made: whoever deletes that lets nobody in. Where folders cannot be locked, as
    // on NFS, LOCK alone has to do.
    if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return in_use();
    auto file = open_file(kLockName, write ? O_RDWR | O_CREAT : O_RDONLY);
    if (!file.ok() && write && is_read_only_errno(static_cast<int>(file.error().detail))) {
        read_only_ = true;
        file = open_file(kLockName, O_RDONLY);
    }
    if (!file.ok()) {
        // A directory that nobody can write needs no lock against writers.
        if (file.error().detail == ENOENT && (read_only_ || !write)) return {};
        Error error = file.error();
        if (error.code != Code::invalid) error.message += "; use another directory";
        return error;
    }
    lock_ = std::move(*file);
    if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) return in_use();
        return errno_error("lock " + path_ + "/LOCK", errno);
    }
    if (!write || read_only_) return {};
    std::string pid = std::to_string(::getpid()) + "\n";
    // The pid only helps people: failing to write it (disk full) does not weaken the lock.
    if (::ftruncate(lock_.get(), 0) == 0) {
        [[maybe_unused]] ssize_t n = ::pwrite(lock_.get(), pid.data(), pid.size(), 0);
    }
    return {};
}

Status DiskDir::write_format() {
    const std::string tmp = std::string(kFormatName) + ".tmp";
    auto fd = open_file(tmp, O_RDWR | O_CREAT | O_TRUNC);
    if (!fd.ok()) return fd.error();
    std::string text = format_text();
    if (::pwrite(fd->get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
        ::fdatasync(fd->get()) != 0) {
        return errno_error("write " + path_ + "/" + tmp, errno);
    }
    QUIRE_TRY(rename(tmp, kFormatName));
    return sync();
}

Result<std::vector<DiskDir::File>> DiskDir::list() const {
    // A fresh descriptor: a directory stream owns its position.
    int fd = ::openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR* stream = fd >= 0 ? ::fdopendir(fd) : nullptr;
    if (stream == nullptr) {
        int error = errno;
        if (fd >= 0) ::close(fd);
        return errno_error("list " + path_, error);
    }
    std::vector<File> files;
    while (const dirent* entry = ::readdir(stream)) {
        std::string name = entry->d_name;
        if (name == "." || name == "..") continue;
        struct stat st{};
        if (::fstatat(fd_.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        const bool regular = S_ISREG(st.st_mode);
        files.push_back(
            {std::move(name), regular ? static_cast<uint64_t>(st.st_size) : 0, regular});
    }
    ::closedir(stream);
    std::sort(files.begin(), files.end(),
              [](const File& a, const File& b) { return a.name < b.name; });
    return files;
}

Result<Fd> DiskDir::open_file(const std::string& name, int flags) const {
    Fd fd(::openat(fd_.get(), name.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0644));
    const int error = errno;
    struct stat st{};
    const bool known = fd.valid()
                           ? ::fstat(fd.get(), &st) == 0
                           : ::fstatat(fd_.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (known && !S_ISREG(st.st_mode)) return not_regular(path_, name, st.st_mode);
    if (!fd.valid()) return errno_error("open " + path_ + "/" + name, error);
    // That was for the opening: io_uring would refuse to wait for the disk as well.
    if (int now = ::fcntl(fd.get(), F_GETFL);
        now < 0 || ::fcntl(fd.get(), F_SETFL, now & ~O_NONBLOCK) != 0) {
        return errno_error("open " + path_ + "/" + name, errno);
    }
    return fd;
}

Status DiskDir::remove(const std::string& name) const {
    if (::unlinkat(fd_.get(), name.c_str(), 0) != 0 && errno != ENOENT) {
        return errno_error("delete " + path_ + "/" + name, errno);
    }
    return {};
}

Status DiskDir::rename(const std::string& from, const std::string& to) const {
    if (::renameat(fd_.get(), from.c_str(), fd_.get(), to.c_str()) != 0) {
        return errno_error("rename " + path_ + "/" + from, errno);
    }
    return {};
}

uint64_t DiskDir::free_bytes() const {
    struct statvfs st{};
    if (::fstatvfs(fd_.get(), &st) != 0) return 0;
    return static_cast<uint64_t>(st.f_bavail) * st.f_frsize;
}

bool DiskDir::still_ours() const {
    if (!lock_.valid()) return true;
    struct stat held{};
    struct stat named{};
    return ::fstat(lock_.get(), &held) == 0 &&
           ::fstatat(fd_.get(), kLockName, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

Status DiskDir::sync() const {
    if (::fsync(fd_.get()) != 0) return errno_error("sync directory " + path_, errno);
    return {};
}

}  // namespace quire
