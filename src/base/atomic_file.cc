#include "base/atomic_file.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace quire {
namespace {

Status failed(const std::string& path, std::string_view what, int error) {
    const bool full = error == ENOSPC || error == EDQUOT;
    return make_error(
        full ? Code::full : Code::io,
        fmt::format("cannot write {} {}: {}", what, path, std::generic_category().message(error)),
        error);
}

// 0, or errno.
int write_all(int fd, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t done = ::write(fd, bytes.data(), bytes.size());
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return errno;
        bytes = bytes.subspan(static_cast<size_t>(done));
    }
    return 0;
}

// A new name in a folder is durable when the folder is. Some file systems cannot sync folders; the
// file itself is whole all the same.
void sync_folder(const std::filesystem::path& folder) {
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    ::fsync(fd);
    ::close(fd);
}

}  // namespace

Status write_file_atomically(const std::string& path, std::string_view what,
                             std::span<const std::byte> bytes) {
    struct stat info = {};
    if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
        return make_error(Code::invalid, fmt::format("{} {} is no regular file", what, path));
    // One that this very thread left behind is stale: another process had its number before.
    const std::string temporary = fmt::format("{}.new-{}-{}", path, ::getpid(), ::gettid());
    ::unlink(temporary.c_str());
    const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return failed(path, what, errno);
    int error = write_all(fd, bytes);
    if (error == 0 && ::fsync(fd) != 0) error = errno;
    if (::close(fd) != 0 && error == 0) error = errno;
    if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
    if (error != 0) {
        ::unlink(temporary.c_str());
        return failed(path, what, error);
    }
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    sync_folder(folder.empty() ? "." : folder);
    return {};
}

}  // namespace quire
