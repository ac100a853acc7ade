#include "base/writable_place.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace quire {

Status check_writable_place(const std::string& path) {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path folder = fs::absolute(path, error).parent_path();
    const fs::file_status found = fs::status(folder, error);
    if (!fs::exists(found))
        return make_error(Code::io, fmt::format("there is no folder {}: make it, or name a file "
                                                "in another one",
                                                folder.string()));
    if (!fs::is_directory(found))
        return make_error(Code::invalid, folder.string() + " is no folder: name a file in one");
    struct stat info = {};
    if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
        return make_error(Code::invalid, path + " is no regular file: name another");
    // Asking for permissions alone would not find a read-only file system, or /proc.
    std::string probe = path + ".try-XXXXXX";
    const int fd = ::mkstemp(probe.data());
    if (fd < 0)
        return make_error(
            Code::io,
            fmt::format("files cannot be written in the folder {} ({}): change its permissions, or "
                        "name a file in another one",
                        folder.string(), std::generic_category().message(errno)),
            errno);
    ::close(fd);
    ::unlink(probe.c_str());
    return {};
}

}  // namespace quire
