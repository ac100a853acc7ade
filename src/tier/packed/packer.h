// Packer: the put path of a PackedStore, on one background thread.
//
// Slabs that come packed as a tier above has them are unpacked first, unless they may stay so.
// What is packed waits in a bounded amount of memory for the store below. After each slab the
// thread rests so long that it takes no more than its share of a core, unless somebody flushes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tier/packed/pack_counters.h"
#include "tier/packed/pack_worth.h"
#include "tier/packed/packed_slab.h"
#include "tier/packed/packed_store.h"

namespace quire {

class Packer {
 public:
    Packer(TierStore& inner, const PackedOptions& options, PackCounters& counters);
    ~Packer();  // finishes what was posted

    void post(std::vector<TierPut> batch, TierDone done);
    // Waits until all that was posted is with the store below, and has been reported.
    Status flush(int64_t timeout_ns);
    // While on, it does not rest.
    void hurry(bool on);

 private:
    struct Job;
    // Some slabs of a job, handed to the store together.
    struct Parcel {
        std::vector<TierPut> puts;
        std::vector<size_t> places;  // in the job
        std::vector<SlabBuffer> memory;
        uint64_t bytes = 0;  // of memory
    };

    void run();
    void work(const std::shared_ptr<Job>& job);
    Status pack_one(const TierPut& put, size_t place, Parcel* parcel);
    Result<SlabBuffer> unpack_from_above(std::span<const std::byte> slab);
    Result<SlabBuffer> as_stored(std::span<const std::byte> slab, bool worth_packing);
    void send(const std::shared_ptr<Job>& job, Parcel parcel);
    void finish(const std::shared_ptr<Job>& job);
    void rest(uint64_t worked_ns);

    TierStore& inner_;
    const PackedOptions options_;
    PackCounters& counters_;
    std::vector<std::byte> scratch_;
    PackWorth worth_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::shared_ptr<Job>> queue_;
    uint64_t open_jobs_ = 0;
    uint64_t held_bytes_ = 0;  // packed, with the store below
    uint32_t flushing_ = 0;
    bool hurried_ = false;
    bool stopping_ = false;
    // tidy: allow(thread): lives as long as the packer, at a priority of its own
    std::thread thread_;
};

}  // namespace quire
