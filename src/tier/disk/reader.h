// Reader: the get path of a disk store, on one thread of its own.
//
// Slabs that lie side by side are read by one request straight into the callers' buffers; while
// later requests are in flight, finished ones are verified. A slab counts only when its bytes are a
// sound slab with the key that was asked for; anything else is forgotten and reported as a miss of
// its kind.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/mailbox.h"
#include "tier/disk/io_window.h"
#include "tier/disk/store_state.h"

namespace quire {

class Reader {
 public:
    explicit Reader(StoreState& state);
    ~Reader();  // finishes what was posted

    void post(std::vector<TierGet> batch, TierDone done);

 private:
    struct Job {
        std::vector<TierGet> gets;
        TierDone done;
        std::vector<Status> results;
        size_t groups_left = 0;
        int64_t start_ns = 0;
    };
    struct Item {
        uint32_t index = 0;  // into the job's gets
        DiskPlace place;
        bool retried = false;
    };
    struct Group {
        Job* job = nullptr;
        SegmentFiles::FilePtr file;
        std::vector<Item> items;  // consecutive on disk
        std::vector<iovec> parts;
    };
    struct Event {
        uint64_t tag;
        Result<size_t> result;
    };
    using Message = std::variant<std::unique_ptr<Job>, Event>;

    void run();
    void start(std::unique_ptr<Job> job);
    std::vector<Item> look_up(Job& job);
    void make_groups(Job& job, std::vector<Item> items);
    void submit(Job& job, std::vector<Item> items);
    void segment_missing(Job& job, const std::vector<Item>& items, const Error& error);
    void finish_group(Group group, const Result<size_t>& result);
    void split(Group group);
    Status check(const TierGet& get, const Item& item, size_t bytes_read);
    void finish_job(Job* job);

    StoreState& state_;
    // Shared with completions: the engine may still be leaving post() when this object goes.
    std::shared_ptr<Mailbox<Message>> mailbox_ = std::make_shared<Mailbox<Message>>();
    IoWindow window_;
    uint64_t next_tag_ = 1;
    std::unordered_map<uint64_t, Group> groups_;
    std::unordered_map<Job*, std::unique_ptr<Job>> jobs_;
    std::atomic<bool> stopping_{false};
    std::atomic<uint64_t> open_jobs_{0};
    std::thread thread_;
};

}  // namespace quire
