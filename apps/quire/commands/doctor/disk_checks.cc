// Is a directory fit for the disk tier?
#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "apps/quire/commands/doctor/checks.h"
#include "base/units.h"
#include "bench/places.h"
#include "tier/disk/disk.h"
#include "tier/disk/disk_reference.h"

namespace fs = std::filesystem;

namespace quire::doctor {
namespace {

constexpr uint64_t kFreeMin = uint64_t{1} << 30;
constexpr uint64_t kSpeedBytes = uint64_t{128} << 20;
constexpr double kSlowDisk = 0.2e9;  // bytes a second

std::string nearest_folder(const std::string& dir) {
    std::error_code error;
    fs::path path = fs::absolute(dir, error);
    while (!fs::is_directory(path, error) && path != path.parent_path()) path = path.parent_path();
    return path.string();
}

Finding check_free(const std::string& folder) {
    struct statvfs stat{};
    if (::statvfs(folder.c_str(), &stat) != 0)
        return failure("disk space", std::generic_category().message(errno),
                       "give another directory with --disk");
    const uint64_t free = uint64_t{stat.f_bavail} * stat.f_frsize;
    const std::string found = format_bytes(free) + " free";
    if (free >= kFreeMin) return good("disk space", found);
    return warning("disk space", found,
                   "the disk tier stops writing when the disk is full: make room, or give a size: "
                   "--disk DIR:512MiB");
}

Finding check_content(const std::string& dir) {
    std::error_code error;
    if (!fs::exists(dir, error)) return good("disk cache", "not there yet; quire serve creates it");
    if (fs::is_empty(dir, error)) return good("disk cache", "an empty directory");
    auto report = inspect_disk(dir, false);
    if (report.code() == Code::busy) return good("disk cache", "in use by a running process");
    if (!report.ok())
        return failure("disk cache", report.error().message,
                       "see the message; nothing was changed");
    const std::string found =
        fmt::format("{} blocks, {}", report->blocks, format_bytes(report->block_bytes));
    if (report->damaged_blocks == 0 && report->damage.empty()) return good("disk cache", found);
    return warning("disk cache",
                   fmt::format("{}, {} damaged, {} lost", found, report->damaged_blocks,
                               report->lost_blocks),
                   "damaged blocks become misses; for details: quire inspect " + dir);
}

// O_DIRECT and speed, by a file that is gone again afterwards.
Findings check_speed(const std::string& folder) {
    auto scratch = bench::ScratchFolder::create(folder);
    if (!scratch.ok())
        return {failure("disk write", "cannot write in " + folder,
                        "give quire a directory that its user can write with --disk")};
    auto io = make_io_engine({});
    if (!io.ok()) return {failure("disk I/O", io.error().message, "see the message")};
    auto file = DirectReadReference::create({scratch->path(), kSpeedBytes, 2 << 20, 16}, **io);
    if (file.code() == Code::io && file.error().detail == EINVAL)
        return {good("disk write", "works"),
                warning("O_DIRECT", "refused by this file system",
                        "reads and writes go through the page cache; prefer ext4 or xfs on NVMe")};
    if (!file.ok())
        return {failure("disk write", file.error().message,
                        "give another directory with --disk, or make room")};
    auto rate = file->read_once();
    if (!rate.ok())
        return {failure("disk read", rate.error().message, "check the disk: dmesg, smartctl")};
    Findings findings = {good("disk write", "works"), good("O_DIRECT", "works")};
    const std::string found = fmt::format("{:.2f} GB/s", *rate * 1e-9);
    findings.push_back(*rate >= kSlowDisk
                           ? good("disk read", found)
                           : warning("disk read", found,
                                     "this slow, computing a prompt again may be cheaper than "
                                     "reading it; a local NVMe disk is best"));
    return findings;
}

}  // namespace

Findings check_disk(const std::string& dir) {
    const std::string folder = nearest_folder(dir);
    Findings findings = {check_content(dir), check_free(folder)};
    // Beside the cache and not inside it: what is inside is the store's.
    std::error_code error;
    const bool inside = fs::exists(dir, error) && !fs::is_empty(dir, error);
    const std::string beside =
        inside ? fs::absolute(dir).lexically_normal().parent_path().string() : folder;
    for (Finding& finding : check_speed(beside)) findings.push_back(std::move(finding));
    return findings;
}

}  // namespace quire::doctor
