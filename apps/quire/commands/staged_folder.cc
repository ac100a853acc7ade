#include "apps/quire/commands/staged_folder.h"

#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tier/disk/disk.h"

namespace quire::commands {
namespace {

namespace fs = std::filesystem;

Error cannot(const char* what, const fs::path& path, const std::error_code& error) {
    return make_error(Code::io,
                      fmt::format("cannot {} {}: {}", what, path.string(), error.message()),
                      error.value());
}

Status check_place(const fs::path& place) {
    std::error_code error;
    const fs::file_status found = fs::status(place, error);
    if (!fs::exists(found)) return {};
    if (!fs::is_directory(found))
        return make_error(Code::invalid, place.string() + " is no folder; name a new one");
    const bool empty = fs::is_empty(place, error);
    if (error) return cannot("read", place, error);
    if (!empty)
        return make_error(Code::invalid, place.string() + " is not empty; name a new folder");
    // It could not be renamed to, which would show when all the work is done.
    struct stat own = {}, above = {};
    if (::stat(place.c_str(), &own) == 0 && ::stat(place.parent_path().c_str(), &above) == 0 &&
        own.st_dev != above.st_dev)
        return make_error(Code::invalid,
                          place.string() + " is a mount point; name a new folder in it");
    return {};
}

// What an interrupted run left is a store, or the beginning of one. Whoever fills it has it locked.
Status delete_leftover(const fs::path& staged, IoEngine& io) {
    DiskOptions options;
    options.dir = staged.string();
    options.capacity_bytes = uint64_t{1} << 40;
    options.allow_oversize = true;
    options.io = &io;
    QUIRE_TRY(open_disk_store(options));
    std::error_code error;
    fs::remove_all(staged, error);
    if (error) return cannot("delete what an interrupted run left in", staged, error);
    return {};
}

}  // namespace

Result<StagedFolder> StagedFolder::create(const std::string& place, IoEngine& io) {
    std::error_code error;
    fs::path whole = fs::weakly_canonical(fs::absolute(place, error), error);
    if (error) return cannot("find", place, error);
    if (!whole.has_filename()) whole = whole.parent_path();  // "new/"
    QUIRE_TRY(check_place(whole));
    const fs::path staged = whole.string() + kStagedSuffix;
    if (fs::exists(staged, error)) QUIRE_TRY(delete_leftover(staged, io));
    return StagedFolder(std::move(whole), staged);
}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : place_(std::move(other.place_)), staged_(std::exchange(other.staged_, {})) {}

StagedFolder::~StagedFolder() {
    if (staged_.empty()) return;
    std::error_code ignored;  // the next run tries again
    fs::remove_all(staged_, ignored);
}

Status StagedFolder::commit() {
    std::error_code error;
    fs::rename(staged_, place_, error);
    if (error) return cannot("move the finished folder to", place_, error);
    staged_.clear();
    const int fd = ::open(place_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return {};
    ::fsync(fd);  // some file systems cannot
    ::close(fd);
    return {};
}

}  // namespace quire::commands
