#include "base/regular_file.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"

namespace quire {
namespace {

Error failed(const std::string& path, std::string_view what, int error) {
    return make_error(
        Code::io,
        fmt::format("cannot read {} {}: {}", what, path, std::generic_category().message(error)),
        error);
}

std::string_view kind_of(mode_t mode) {
    if (S_ISDIR(mode)) return "a directory";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISSOCK(mode)) return "a socket";
    return "a device";
}

}  // namespace

Result<int> open_regular_file(const std::string& path, std::string_view what) {
    // Not to wait for a pipe's other end; regular files are read as ever.
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return failed(path, what, errno);
    struct stat info = {};
    const int status = ::fstat(fd, &info);
    if (status == 0 && S_ISREG(info.st_mode)) return fd;
    const int error = errno;
    ::close(fd);
    if (status != 0) return failed(path, what, error);
    return make_error(Code::invalid, fmt::format("{} {} is {}, not a regular file", what, path,
                                                 kind_of(info.st_mode)));
}

Result<std::string> read_regular_file(const std::string& path, std::string_view what,
                                      uint64_t bytes_max) {
    const Result<int> fd = open_regular_file(path, what);
    if (!fd.ok()) return fd.error();
    const auto too_large = [&] {
        return make_error(Code::invalid, fmt::format("{} {} is larger than {}", what, path,
                                                     exact_size(bytes_max)));
    };
    struct stat info = {};
    if (::fstat(*fd, &info) == 0 && std::cmp_greater(info.st_size, bytes_max)) {
        ::close(*fd);
        return too_large();
    }
    std::string text;
    constexpr size_t kPieceBytes = size_t{64} << 10;
    ssize_t got = 1;
    int error = 0;
    while (got > 0 && text.size() <= bytes_max) {
        const size_t before = text.size();
        text.resize(before + kPieceBytes);
        do {
            got = ::read(*fd, text.data() + before, kPieceBytes);
        } while (got < 0 && errno == EINTR);
        if (got < 0) error = errno;
        text.resize(before + static_cast<size_t>(got < 0 ? 0 : got));
    }
    ::close(*fd);
    if (got < 0) return failed(path, what, error);
    if (text.size() > bytes_max) return too_large();
    return text;
}

}  // namespace quire
