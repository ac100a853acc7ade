#include "tier/disk/segment_files.h"

#include <cerrno>
#include <chrono>

#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "format/segment.h"

namespace quire {

SegmentFiles::File::~File() {
    fd_.reset();
    if (uint64_t bytes = zombie_bytes_.load(); bytes > 0) owner_.give_back(bytes);
}

void SegmentFiles::give_back(uint64_t bytes) {
    {
        std::lock_guard lock(mutex_);
        bytes_.fetch_sub(bytes);
    }
    freed_.notify_all();
}

bool SegmentFiles::wait_below(uint64_t limit, int64_t timeout_ns) {
    std::unique_lock lock(mutex_);
    return freed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                           [&] { return bytes_.load() <= limit; });
}

void SegmentFiles::adopt(uint32_t id, uint64_t bytes) {
    std::lock_guard lock(mutex_);
    sizes_[id] = bytes;
    bytes_.fetch_add(bytes);
}

Result<Fd> SegmentFiles::open_fd(uint32_t id, int flags) {
    const std::string name = segment_file_name(id);
    if (direct_.load()) {
        auto fd = dir_.open_file(name, flags | O_DIRECT);
        if (fd.ok() || fd.error().detail != EINVAL) return fd;
        direct_.store(false);
        log::warn("disk_no_direct_io", "the file system of {} refuses O_DIRECT; using buffered I/O",
                  dir_.path());
    }
    return dir_.open_file(name, flags);
}

void SegmentFiles::cache(const FilePtr& file) {
    if (cached_.size() >= kMaxCached) cached_.erase(cached_.begin());
    cached_[file->id()] = file;
    open_[file->id()] = file;
    if (open_.size() > 4 * kMaxCached) {
        std::erase_if(open_, [](const auto& item) { return item.second.expired(); });
    }
}

Result<SegmentFiles::FilePtr> SegmentFiles::create(uint32_t id, uint64_t bytes) {
    auto fd = open_fd(id, O_RDWR | O_CREAT | O_EXCL);
    if (!fd.ok()) return fd.error();
    // Not posix_fallocate: glibc's fallback writes a byte into every page.
    int error = ::fallocate(fd->get(), 0, 0, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
    if (error == EOPNOTSUPP || error == ENOSYS || error == EINVAL) {
        // Space is then found missing by the write that needs it.
        error = ::ftruncate(fd->get(), static_cast<off_t>(bytes)) == 0 ? 0 : errno;
    }
    if (error != 0) {
        std::string what = "reserve " + std::to_string(bytes) + " bytes for " + dir_.path() + "/" +
                           segment_file_name(id);
        fd->reset();
        (void)dir_.remove(segment_file_name(id));
        return errno_error(what, error);
    }
    auto file = std::make_shared<File>(*this, id, std::move(*fd));
    std::lock_guard lock(mutex_);
    sizes_[id] = bytes;
    bytes_.fetch_add(bytes);
    cache(file);
    return file;
}

Result<SegmentFiles::FilePtr> SegmentFiles::open(uint32_t id) {
    {
        std::lock_guard lock(mutex_);
        if (auto it = open_.find(id); it != open_.end()) {
            if (FilePtr file = it->second.lock()) return file;
        }
    }
    auto fd = open_fd(id, O_RDONLY);
    if (!fd.ok()) return fd.error();
    auto file = std::make_shared<File>(*this, id, std::move(*fd));
    std::lock_guard lock(mutex_);
    // Deleted between the open and here: usable, but not worth keeping.
    if (sizes_.contains(id)) cache(file);
    return file;
}

Status SegmentFiles::truncate(const FilePtr& file, uint64_t bytes) {
    if (::ftruncate(file->fd(), static_cast<off_t>(bytes)) != 0) {
        return errno_error("cut " + dir_.path() + "/" + segment_file_name(file->id()), errno);
    }
    shrunk(file->id(), bytes);
    return {};
}

void SegmentFiles::shrunk(uint32_t id, uint64_t bytes) {
    std::lock_guard lock(mutex_);
    auto it = sizes_.find(id);
    if (it == sizes_.end() || it->second <= bytes) return;
    bytes_.fetch_sub(it->second - bytes);
    it->second = bytes;
}

uint64_t SegmentFiles::size_of(uint32_t id) {
    std::lock_guard lock(mutex_);
    auto it = sizes_.find(id);
    return it == sizes_.end() ? 0 : it->second;
}

Status SegmentFiles::remove(uint32_t id) {
    if (Status status = dir_.remove(segment_file_name(id)); !status.ok()) return status;
    FilePtr file;  // if this is the last user, it closes after the lock is gone
    uint64_t unused = 0;
    {
        std::lock_guard lock(mutex_);
        auto size = sizes_.find(id);
        if (size == sizes_.end()) return {};
        if (auto it = open_.find(id); it != open_.end()) file = it->second.lock();
        if (file) {
            file->zombie_bytes_.store(size->second);
        } else {
            unused = size->second;
        }
        sizes_.erase(size);
        cached_.erase(id);
        open_.erase(id);
    }
    if (unused > 0) give_back(unused);
    return {};
}

}  // namespace quire
