// Reader: the get path of a disk store, on one thread of its own.
//
// Slabs that lie side by side are read by one request straight into the callers' buffers; while
// later requests are in flight, finished ones are verified. Where the caller wants layers as they
// land, the slabs of a long load are read in pieces instead, every slab's first piece before
// anybody's second. A slab counts only when its bytes are a sound slab with the key that was asked
// for; anything else is forgotten and reported as a miss of its kind.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/mailbox.h"
#include "tier/disk/io_window.h"
#include "tier/disk/store_state.h"
#include "tier/landing.h"

namespace quire {

class Reader {
 public:
    explicit Reader(StoreState& state);
    ~Reader();  // finishes what was posted

    // Counts the layers of one get as they land; shared by all readers of the get. Null: nobody
    // wants to know.
    struct Landing {
        std::vector<SlabPiece> pieces;
        LandingCount count;
        Landing(TierLanding landing, size_t slabs)
            : pieces(cut_slab(landing.layers, landing.layer_bytes)),
              count(std::move(landing), pieces, slabs) {}
        size_t slab_bytes() const { return pieces.back().offset + pieces.back().bytes; }
    };

    void post(std::vector<TierGet> batch, TierDone done, std::shared_ptr<Landing> landing);

 private:
    // How far a slab is that is read in pieces.
    struct Progress {
        uint32_t arrived = 0;  // bit p: piece p was read
        bool header_ok = false;
    };
    struct Job {
        std::vector<TierGet> gets;
        TierDone done;
        std::shared_ptr<Landing> landing;
        std::vector<Progress> progress;  // per get, with landing
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
        std::vector<Item> items;  // consecutive on disk; one when it is a piece
        std::vector<iovec> parts;
        std::optional<uint32_t> piece;  // of items[0]; none: whole slabs
    };
    struct Event {
        uint64_t tag;
        Result<size_t> result;
    };
    using Message = std::variant<std::unique_ptr<Job>, Event>;

    IoWindow::Posted posted() const;
    void run();
    void start(std::unique_ptr<Job> job);
    std::vector<Item> look_up(Job& job);
    void read(Job& job, std::vector<Item> items);
    void make_groups(Job& job, const std::vector<Item>& items);
    void make_pieces(Job& job, const std::vector<Item>& items);
    void submit(Job& job, std::vector<Item> items);
    void submit(Job& job, SegmentFiles::FilePtr file, std::vector<Item> items,
                std::optional<uint32_t> piece);
    void segment_missing(Job& job, const std::vector<Item>& items, const Error& error);
    void finish_group(Group group, const Result<size_t>& result);
    void finish_piece(Job& job, const Group& group, const Result<size_t>& result);
    Status check_pieces(Job& job, const Item& item, uint32_t piece);
    Status check_header(const Job& job, const Item& item) const;
    Status check_asked(const Job& job, const Item& item) const;
    void split(Group group);
    void refuse(Job& job, uint32_t index, Status why);
    Status damaged(const Item& item, const Status& why);
    Status check(const Job& job, const Item& item, size_t bytes_read);
    void finish_job(Job* job);

    StoreState& state_;
    // Shared with completions: the engine may still be leaving post() when this object goes.
    std::shared_ptr<Mailbox<Message>> mailbox_ = std::make_shared<Mailbox<Message>>();
    IoWindow window_;
    IoWindow pieces_;  // smaller requests: more of them keep the device as busy
    uint64_t next_tag_ = 1;
    std::unordered_map<uint64_t, Group> groups_;
    std::unordered_map<Job*, std::unique_ptr<Job>> jobs_;
    std::atomic<bool> stopping_{false};
    std::atomic<uint64_t> open_jobs_{0};
    std::thread thread_;
};

}  // namespace quire
