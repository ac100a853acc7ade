// SegmentFiles: the segment files of one directory as descriptors and bytes.
//
// Descriptors are opened on demand and kept in a small cache, because a large store has more
// segments than a process may open. A file in use stays open until its last user is done, even when
// it was deleted meanwhile, and its bytes count until then: the file system has not given them back
// yet. Any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "tier/disk/dir.h"

namespace quire {

class SegmentFiles {
 public:
    // An open segment; holding it keeps the descriptor valid.
    class File {
     public:
        File(SegmentFiles& owner, uint32_t id, Fd fd)
            : owner_(owner), id_(id), fd_(std::move(fd)) {}
        ~File();
        int fd() const { return fd_.get(); }
        uint32_t id() const { return id_; }

     private:
        friend class SegmentFiles;
        SegmentFiles& owner_;
        uint32_t id_;
        Fd fd_;
        std::atomic<uint64_t> zombie_bytes_{0};  // given back when the descriptor closes
    };
    using FilePtr = std::shared_ptr<File>;

    // `dir` is borrowed and outlives this. O_DIRECT is tried when `direct`.
    SegmentFiles(const DiskDir& dir, bool direct) : dir_(dir), direct_(direct) {}

    // Takes note of a file found at start.
    void adopt(uint32_t id, uint64_t bytes);
    // Makes the file with all its space reserved. full or io when that fails; nothing is left then.
    Result<FilePtr> create(uint32_t id, uint64_t bytes);
    // For reading. io with ENOENT when the file is gone.
    Result<FilePtr> open(uint32_t id);
    // Cuts the file; what was reserved beyond returns to the file system.
    Status truncate(const FilePtr& file, uint64_t bytes);
    // Takes note that a file was cut by somebody else.
    void shrunk(uint32_t id, uint64_t bytes);
    Status remove(uint32_t id);

    // 0 for an unknown one.
    uint64_t size_of(uint32_t id);

    // Bytes of all files, deleted ones that are still in use included.
    uint64_t bytes() const { return bytes_.load(); }
    // Waits until bytes() <= limit or the time is over; true if it is.
    bool wait_below(uint64_t limit, int64_t timeout_ns);

    bool direct() const { return direct_.load(); }

 private:
    static constexpr size_t kMaxCached = 128;

    Result<Fd> open_fd(uint32_t id, int flags);
    void cache(const FilePtr& file);
    void give_back(uint64_t bytes);

    const DiskDir& dir_;
    std::atomic<bool> direct_;
    std::atomic<uint64_t> bytes_{0};
    std::mutex mutex_;
    std::condition_variable freed_;
    std::unordered_map<uint32_t, uint64_t> sizes_;
    std::unordered_map<uint32_t, FilePtr> cached_;
    std::unordered_map<uint32_t, std::weak_ptr<File>> open_;
};

}  // namespace quire
