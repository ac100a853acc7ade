// Storer: copies published blocks to lower tiers behind everybody's back.
//
// One background thread of low priority seals slabs (checksums) and hands them to the tiers in
// batches, so that no token waits for a write. The caller keeps the slots pinned from submit()
// until the batch's StoreDone arrives; nothing here touches a slot after that. Bounded by what the
// caller has pinned.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/buffer_pool.h"
#include "tier/tier.h"

namespace quire {

struct StoreItem {
    uint32_t group = 0;
    uint32_t slot = 0;  // of G1; kNoArenaSlot: a copy of what left `from`
    BlockKey key;
    std::span<std::byte> slab;  // header complete but for the checksums, or sealed
    bool sealed = false;
    uint8_t tiers = 0;  // bit i: put into the i-th lower tier
    uint32_t value = 1;
    Tier from = Tier::g1;
    PrefixHash prefix;
    PooledBuffer copy;  // given back once every put has completed
};

struct StoreBatch {
    int64_t submitted_ns = 0;
    std::vector<StoreItem> items;
};

// What became of a batch: results[t][i] belongs to item i and lower tier t (ok where not asked
// for).
struct StoreDone {
    StoreBatch batch;
    std::vector<std::vector<Status>> results;
};

class Storer {
 public:
    using OnDone = std::function<void(StoreDone&&)>;  // on some background thread; must not block

    // `tiers` in order; each outlives the storer. Destruction finishes what was submitted.
    Storer(std::vector<TierStore*> tiers, OnDone on_done);
    ~Storer();

    void submit(StoreBatch batch);

 private:
    struct Flight;
    void run();
    void store(StoreBatch batch);
    void complete_one(Flight& flight);
    void put(const std::shared_ptr<Flight>& flight, size_t tier);

    std::vector<TierStore*> tiers_;
    OnDone on_done_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<StoreBatch> queue_;
    uint64_t flying_ = 0;  // batches whose puts have not all completed
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace quire
