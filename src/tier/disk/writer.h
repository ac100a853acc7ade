// Writer: the put path of a disk store and the owner of its journal, on one thread of its own.
//
// A put passes through: admitted (it gets a place in the active segment), written (its group of
// neighbours is one large write), journalled (one append for everything that finished meanwhile),
// and only then visible. Space is made by cleaning when a segment is full. Also here: erase
// records, checkpoints, periodic fdatasync, retry after errors.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/mailbox.h"
#include "tier/disk/active_segment.h"
#include "tier/disk/cleaner.h"
#include "tier/disk/index_log.h"
#include "tier/disk/io_window.h"
#include "tier/disk/store_state.h"

namespace quire {

class Writer {
 public:
    Writer(StoreState& state, IndexLog::Start start, uint32_t next_segment);
    // Finishes what was posted, then closes cleanly: everything synced, a fresh checkpoint.
    ~Writer();

    void post(std::vector<TierPut> batch, TierDone done);
    void journal_later(std::vector<IndexRecord> records);
    // Everything posted before is stored durably or has failed when this returns ok.
    Status flush(int64_t timeout_ns);

 private:
    struct Job {
        uint64_t number = 0;
        std::vector<TierPut> puts;
        TierDone done;
        std::vector<Status> results;
        size_t next = 0;     // first put not admitted yet
        size_t waiting = 0;  // puts in groups not finished yet
        uint64_t bytes = 0;
        int64_t start_ns = 0;
    };
    struct Item {
        Job* job = nullptr;
        size_t index = 0;
        DiskPlace place;
    };
    struct Group {
        SegmentFiles::FilePtr file;
        std::vector<Item> items;  // consecutive on disk
        std::vector<iovec> parts;
        uint64_t bytes = 0;
        uint64_t failures_before = 0;
        std::shared_ptr<void> memory;  // of a segment header, which no put owns
    };
    struct Event {
        uint64_t tag;
        Result<size_t> result;
    };
    struct Flush {
        std::mutex mutex;
        std::condition_variable ready;
        std::optional<Status> result;
        uint64_t up_to = 0;  // job number
    };
    using FlushPtr = std::shared_ptr<Flush>;
    using Records = std::vector<IndexRecord>;
    using Message = std::variant<std::unique_ptr<Job>, Event, Records, FlushPtr>;

    void run();
    void take(Message message);
    int64_t wait_ns() const;
    uint64_t oldest_job() const;

    // Admission. False when it must wait for writes in flight.
    bool admit(Job& job);
    void admit_all();
    Status admissible(const TierPut& put) const;
    bool already_there(const TierPut& put) const;
    Status may_write();
    Result<DiskPlace> place(uint16_t units);
    void add_to_group(Job& job, size_t index, const DiskPlace& place);
    void send_group();
    void send(Group group, uint64_t offset);
    void send_header(uint64_t segment_bytes);

    // Space.
    void shrink();
    Status roll(uint32_t needed_units);
    Status make_room_on_device(const Error& why);
    Status replace_oversized_index();
    void seal_active();
    void seal_if_settled(uint32_t segment);
    Status clean_one(uint32_t budget_units);
    void give_back_unused(const SegmentFiles::FilePtr& file);
    uint64_t slab_count() const;
    uint64_t used_bytes() const;

    // Completion.
    void finish_group(uint64_t tag, const Result<size_t>& result);
    void publish_ready();
    Records new_records(const std::vector<Group>& groups) const;
    void publish(std::vector<Group>& groups);
    void settle(const Group& group, const Status& status);
    void finish_jobs();
    void write_failed(const Error& error);

    // Housekeeping.
    void append_pending();
    void maybe_checkpoint();
    void maybe_sync();
    Status sync_all();
    void answer_flushes();
    void close();

    StoreState& state_;
    IndexLog log_;
    Cleaner cleaner_;
    ActiveSegment active_;
    uint32_t next_segment_;
    // Shared with completions: the engine may still be leaving post() when this object goes.
    std::shared_ptr<Mailbox<Message>> mailbox_ = std::make_shared<Mailbox<Message>>();
    IoWindow window_;
    std::atomic<uint64_t> posted_jobs_{0};
    std::atomic<uint64_t> finished_jobs_{0};

    std::deque<std::unique_ptr<Job>> queue_;         // not fully admitted, oldest first
    std::vector<std::unique_ptr<Job>> active_jobs_;  // fully admitted, not done
    Group open_group_;
    uint64_t next_tag_ = 1;
    std::unordered_map<uint64_t, Group> groups_;        // by tag, in flight or waiting
    std::vector<Group> ready_;                          // written, not published
    std::unordered_map<uint32_t, uint32_t> unsettled_;  // segment -> groups not published yet
    std::unordered_map<uint32_t, SegmentFiles::FilePtr> closing_;  // full, still unsettled
    std::vector<SegmentFiles::FilePtr> unsynced_;
    Records pending_records_;
    std::vector<FlushPtr> flushes_;
    uint64_t failures_ = 0;
    bool journal_failed_ = false;   // the last append did; tried before anything is placed
    uint64_t exchanged_bytes_ = 0;  // deleted because the device was full, not yet made good
    bool records_lost_ = false;     // only a checkpoint makes the journal true again
    bool dirty_ = false;
    int64_t last_sync_ns_ = 0;
    int64_t next_checkpoint_ns_ = 0;
    std::atomic<bool> stopping_{false};
    std::thread thread_;
};

}  // namespace quire
