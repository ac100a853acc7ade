// Invariants: entries_ is under mutex_; bytes of an entry's units are read and written without it
// by who is among the entry's users. A block is reserved, its bytes are copied, and only then is it
// ready: nobody finds it before. What gave way to it was shown, and is gone, by then.
#include "tier/host/host_store.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>

#include "base/check.h"
#include "base/clock.h"
#include "base/executor.h"
#include "tier/arena/slot_arena.h"
#include "tier/host/copy_slab.h"
#include "tier/host/get_flight.h"
#include "tier/host/host_entries.h"
#include "tier/landing.h"
#include "tier/packed/packed_slab.h"

namespace quire {
namespace {

// Blocks one worker copies before another may take over: about 1 ms of work.
constexpr size_t kBlocksPerTask = 16;
// Of slabs of any size, which are multiples of it: no memory is lost in the last one.
constexpr size_t kUnitBytes = kSlabAlign;

class HostStore final : public TierStore {
 public:
    HostStore(const HostOptions& options, std::unique_ptr<SlotArena> arena,
              const EvictionRow& evict)
        : options_(options),
          entries_(std::move(arena), options.any_size, evict),
          workers_("quire-host", options.threads, options.queue_max) {}

    ~HostStore() override { workers_.drain(); }

    TierInfo info() const override {
        return {Tier::g2,
                "host",
                {.zero_copy = !options_.any_size, .lists = true, .copies = true},
                entries_.capacity_bytes()};
    }

    void contains(std::span<const BlockKey> keys, std::span<uint8_t> present) const override {
        std::lock_guard lock(mutex_);
        for (size_t i = 0; i < keys.size(); ++i) {
            const HostEntry* entry = entries_.find(keys[i]);
            present[i] = entry && entry->ready && !entry->doomed;
        }
    }

    Status get(std::vector<TierGet> batch, TierDone done, TierLanding landing) override {
        auto flight = std::make_shared<GetFlight>(std::move(batch), std::move(done));
        if (options_.any_size) landing = {};  // sizes say nothing of layers
        const uint32_t landing_layers = landing.layers;
        if (landing.layers > 0) flight->pieces = cut_slab(landing.layers, landing.layer_bytes);
        flight->landing.emplace(std::move(landing), flight->pieces, flight->items.size());
        {
            std::lock_guard lock(mutex_);
            hold_entries(*flight, entries_, options_.layout, landing_layers, "not in the host pool",
                         stats_);
        }
        const size_t n = flight->items.size();
        const size_t runs = std::max<size_t>(1, (n + kBlocksPerTask - 1) / kBlocksPerTask);
        const size_t tasks = runs * flight->pieces.size();
        flight->open = tasks;
        pending_.fetch_add(1);
        // All blocks' first layers before anybody's next ones.
        for (size_t t = 0; t < tasks; ++t) {
            auto task = [this, flight, piece = t / runs, first = t % runs * kBlocksPerTask] {
                copy_out(*flight, piece, first);
                finish_task(*flight);
            };
            if (workers_.submit(std::move(task)).ok()) continue;
            const Error busy = make_error(Code::busy, "the host pool's queue is full");
            if (t == 0) {  // nothing started: the whole batch is refused
                let_go(*flight);
                leave();
                return busy;
            }
            for (size_t i = 0; i < n; ++i) flight->fail(i, busy);
            for (; t < tasks; ++t) finish_task(*flight);
        }
        return {};
    }

    Status put(std::vector<TierPut> batch, TierDone done) override {
        auto flight = std::make_shared<PutFlight>();
        const size_t n = batch.size();
        const size_t tasks = std::max<size_t>(1, (n + kBlocksPerTask - 1) / kBlocksPerTask);
        flight->items = std::move(batch);
        flight->results.resize(n);
        flight->done = std::move(done);
        flight->open = tasks;
        pending_.fetch_add(1);
        for (size_t t = 0; t < tasks; ++t) {
            auto task = [this, flight, t, n] {
                const size_t end = std::min(n, (t + 1) * kBlocksPerTask);
                for (size_t i = t * kBlocksPerTask; i < end; ++i)
                    flight->results[i] = put_one(flight->items[i]);
                finish_task(*flight);
            };
            if (workers_.submit(std::move(task)).ok()) continue;
            const Error busy = make_error(Code::busy, "the host pool's queue is full");
            if (t == 0) {  // nothing started: the whole batch is refused
                leave();
                return busy;
            }
            for (size_t i = t * kBlocksPerTask; i < n; ++i) flight->results[i] = busy;
            for (; t < tasks; ++t) finish_task(*flight);
        }
        return {};
    }

    void erase(std::span<const BlockKey> keys) override {
        std::lock_guard lock(mutex_);
        entries_.doom(keys);
    }

    Result<std::vector<TierEntry>> list() const override {
        std::lock_guard lock(mutex_);
        return entries_.list();
    }

    TierStats stats() const override {
        std::lock_guard lock(mutex_);
        TierStats stats = stats_;
        stats.capacity_bytes = entries_.capacity_bytes();
        stats.used_bytes = entries_.used_bytes();
        stats.blocks = entries_.blocks();
        stats.evicted_blocks = entries_.evicted_blocks();
        stats.pending = pending_.load();
        return stats;
    }

    void on_evicted(TierEvicted evicted) override {
        std::lock_guard lock(mutex_);
        evicted_ = std::move(evicted);
    }

    Status flush(int64_t timeout_ns) override {
        std::unique_lock lock(idle_mutex_);
        const bool idle = idle_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                                         [this] { return pending_.load() == 0; });
        if (!idle) return make_error(Code::timeout, "host copies are still running");
        return {};
    }

 private:
    // Puts being worked on by several workers; the last task reports.
    struct PutFlight {
        std::vector<TierPut> items;
        std::vector<Status> results;
        TierDone done;
        std::atomic<size_t> open{0};
    };

    // The same for gets, whose slabs are copied in pieces.
    void leave() {
        std::lock_guard lock(idle_mutex_);
        pending_.fetch_sub(1);
        idle_.notify_all();
    }

    // One piece of some of the batch's slabs.
    void copy_out(GetFlight& flight, size_t piece, size_t first) {
        const size_t end = std::min(flight.items.size(), first + kBlocksPerTask);
        for (size_t i = first; i < end; ++i) {
            const HostEntry* entry = flight.entries[i];
            if (!entry) continue;
            const Status copied =
                entries_.any_size()
                    ? copy_units(*entry, flight.items[i].into)
                    : copy_slab_layers(entries_.unit(entry->pool, entry->units.front()),
                                       flight.items[i].into, flight.pieces[piece].first_layer,
                                       flight.pieces[piece].end_layer);
            if (copied.ok())
                flight.landing->landed(piece);
            else
                flight.fail(i, copied);
        }
    }

    // A slab of any size, to the first bytes of `into`, verified there.
    Status copy_units(const HostEntry& entry, std::span<std::byte> into) const {
        into = into.first(entry.bytes);
        gather(entry.pool, entry.units, into);
        return verify_slab(into);
    }

    // As many of the units as `into` has room for.
    void gather(uint32_t pool, std::span<const uint32_t> units, std::span<std::byte> into) const {
        for (const uint32_t unit : units) {
            const std::span<const std::byte> from = entries_.unit(pool, unit);
            std::memcpy(into.data(), from.data(), from.size());
            into = into.subspan(from.size());
        }
    }

    void finish_task(PutFlight& flight) {
        if (flight.open.fetch_sub(1) != 1) return;
        flight.done(flight.results);
        leave();
    }

    void finish_task(GetFlight& flight) {
        if (flight.open.fetch_sub(1) != 1) return;
        let_go(flight);
        flight.done(flight.results);
        leave();
    }

    void let_go(GetFlight& flight) {
        std::lock_guard lock(mutex_);
        let_go_of_entries(flight, entries_, stats_);
    }

    Status put_one(const TierPut& item) {
        const int64_t start_ns = system_clock().monotonic_ns();
        QUIRE_TRY(verify_slab_header(item.slab));
        const SlabHeader& header = slab_header(item.slab);
        if (header.key != item.key || !entries_.takes(header.group, item.slab.size()))
            return make_error(Code::invalid, "the slab is not the block its key names");
        HostEntries::Reserved reserved;
        {
            std::lock_guard lock(mutex_);
            if (entries_.find(item.key)) return {};  // there, or on its way
            reserved = entries_.reserve(header, item.slab.size());
        }
        if (evicted_)
            for (const HostEntries::GivenUp& gone : reserved.given_up) show(reserved.pool, gone);
        if (reserved.entry) copy_in(*reserved.entry, item.slab);
        std::lock_guard lock(mutex_);
        entries_.give_spare(reserved);
        if (!reserved.entry) {
            ++stats_.puts_rejected;
            return make_error(Code::full, "every block of the host pool is in use");
        }
        ++stats_.puts;
        stats_.put_bytes += item.slab.size();
        stats_.put_ns += static_cast<uint64_t>(system_clock().monotonic_ns() - start_ns);
        if (!reserved.entry->doomed)
            entries_.make_ready(
                *reserved.entry,
                {header.prefix.value, header.first_position / header.token_count, false, 0});
        entries_.drop_user(*reserved.entry);
        return {};
    }

    void copy_in(const HostEntry& entry, std::span<const std::byte> slab) const {
        for (const uint32_t number : entry.units) {
            const std::span<std::byte> to = entries_.unit(entry.pool, number);
            std::memcpy(to.data(), slab.data(), to.size());
            slab = slab.subspan(to.size());
        }
    }

    void show(uint32_t pool, const HostEntries::GivenUp& gone) const {
        if (!entries_.any_size()) return evicted_(entries_.unit(pool, gone.units.front()));
        const SlabBuffer whole(gone.bytes);
        if (!whole) return;  // lost below, as what finds no buffer there
        gather(pool, gone.units, whole.bytes());
        evicted_(whole.bytes());
    }

    HostOptions options_;
    mutable std::mutex mutex_;
    HostEntries entries_;
    TierEvicted evicted_;
    TierStats stats_;
    std::atomic<uint64_t> pending_{0};
    std::mutex idle_mutex_;
    std::condition_variable idle_;
    ThreadPool workers_;  // last: its threads use everything above
};

}  // namespace

Result<std::unique_ptr<TierStore>> open_host_store(const HostOptions& options) {
    const EvictionRow* evict = find_eviction(options.evict);
    if (!evict) return make_error(Code::invalid, "unknown eviction policy '" + options.evict + "'");
    if (options.any_size && !options.memory.empty())
        return make_error(Code::invalid, "slabs of any size lie in the store's own memory");
    auto arena =
        options.any_size ? SlotArena::of_units(options.layout, options.capacity_bytes, kUnitBytes)
        : options.memory.empty() ? SlotArena::create(options.layout, options.capacity_bytes, 1)
                                 : SlotArena::over(options.layout, options.memory, 1);
    if (!arena.ok()) return arena.error();
    return std::unique_ptr<TierStore>(new HostStore(options, std::move(arena).value(), *evict));
}

}  // namespace quire
