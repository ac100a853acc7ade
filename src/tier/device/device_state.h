// What a DeviceStore owns, and how its files share it. Nothing here is for anybody else.
//
// Invariants: entries_ is under mutex_; a slot's bytes are read and written without it by who is
// among its entry's users: copies, loads, and holders. A block is reserved, its bytes are copied,
// and only when that copy has ended is it ready: nobody finds it before.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "base/executor.h"
#include "tier/device/bounce.h"
#include "tier/device/device_memory.h"
#include "tier/device/device_store.h"
#include "tier/device/mover.h"
#include "tier/host/get_flight.h"
#include "tier/host/host_entries.h"
#include "tier/landing.h"

struct CUevent_st;

namespace quire {

// Blocks that are copied by one call of the copy engine, and verified in one go.
inline constexpr size_t kDeviceRunBlocks = 16;

class DeviceState final : public DeviceStore {
 public:
    struct Parts {
        DeviceMemory memory;
        std::unique_ptr<SlotArena> arena;
        std::unique_ptr<Bounce> bounce;
        std::unique_ptr<DeviceMover> mover;
        std::vector<CUevent_st*> events;
    };
    DeviceState(const DeviceOptions& options, Parts parts, const EvictionRow& evict);
    ~DeviceState() override;

    // device_store.cc
    TierInfo info() const override;
    void contains(std::span<const BlockKey> keys, std::span<uint8_t> present) const override;
    void erase(std::span<const BlockKey> keys) override;
    Result<std::vector<TierEntry>> list() const override;
    TierStats stats() const override;
    Status flush(int64_t timeout_ns) override;
    void hold(std::span<const BlockKey> keys, std::span<std::byte*> slabs) override;
    Status let_go(std::span<const BlockKey> keys, CUstream_st* stream) override;
    // device_get.cc
    Status get(std::vector<TierGet> batch, TierDone done, TierLanding landing) override;
    // device_put.cc
    Status put(std::vector<TierPut> batch, TierDone done) override;
    // device_take.cc
    Result<std::shared_ptr<DeviceLoad>> load(std::vector<TierPut> batch, TierDone done) override;

 private:
    struct PutFlight;
    struct LoadFlight;
    // A block that has its slot and whose bytes are to come.
    struct Incoming {
        size_t item = 0;
        HostEntry* entry = nullptr;
    };

    Status enter();
    void leave();
    // Runs it on a thread of the pool, or here when its queue is full.
    static void run(ThreadPool& pool, std::function<void()> task);
    bool is_pinned(std::span<const std::byte> bytes) const;
    std::byte* slot(const HostEntry& entry) const {
        return entries_.unit(entry.pool, entry.units.front()).data();
    }

    // Null: the block is there, or on its way. REQUIRES: mutex_ is not held.
    Result<HostEntry*> admit(const TierPut& item);
    // The copy of a block has ended. REQUIRES: mutex_ is held.
    void settle(HostEntry& entry, const TierPut& item, const Status& copied);
    void put_run(const std::shared_ptr<PutFlight>& flight, size_t first);
    void send(const std::shared_ptr<PutFlight>& flight, std::vector<Incoming> blocks,
              std::vector<std::byte*> places);
    void finish(PutFlight& flight, size_t blocks);

    void get_run(const std::shared_ptr<GetFlight>& flight, size_t piece, size_t first);
    void fetch(const std::shared_ptr<GetFlight>& flight, size_t piece, std::vector<size_t> items,
               std::vector<std::byte*> places);
    void check(GetFlight& flight, size_t piece, std::span<const size_t> items,
               std::span<std::byte* const> places, const Status& copied);
    void finish(GetFlight& flight, size_t parts);

    void admit_all(LoadFlight& flight);
    void send_piece(const std::shared_ptr<LoadFlight>& flight, size_t piece);
    void verify_run(LoadFlight& flight, size_t piece, size_t first);
    void finish(LoadFlight& flight);

    const DeviceOptions options_;
    mutable std::mutex mutex_;
    const DeviceMemory memory_;
    HostEntries entries_;
    TierStats stats_;
    std::vector<CUevent_st*> events_;       // all
    std::vector<CUevent_st*> free_events_;  // under mutex_
    uint64_t pending_ = 0;                  // under idle_mutex_
    mutable std::mutex idle_mutex_;
    std::condition_variable idle_;
    std::unique_ptr<Bounce> bounce_;
    std::unique_ptr<DeviceMover> mover_;  // its thread uses everything above, as the pools'
    ThreadPool checks_;                   // what they do waits for nobody, and gives places back
    ThreadPool starts_;                   // what they do may wait for places
};

}  // namespace quire
