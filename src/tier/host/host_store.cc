// Invariants, under mutex_:
//   an entry is in entries_ from its reservation to its eviction or erase; `ready` says its bytes
//   are complete and that it is in its group's policy; `users` counts copies out of or into the
//   slot; a slot with users is neither evicted nor given back: erase() of such an entry marks it
//   `doomed` and the last user frees it; children_ counts, per parent key, the entries that name it
//   (a child may arrive before its parent): an entry with children is not evicted, so parents
//   outlive children.
#include "tier/host/host_store.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/check.h"
#include "base/clock.h"
#include "base/executor.h"
#include "policy/evict.h"
#include "tier/arena/slot_arena.h"
#include "tier/host/copy_slab.h"
#include "tier/landing.h"

namespace quire {
namespace {

// Blocks one worker copies before another may take over: about 1 ms of work.
constexpr size_t kBlocksPerTask = 16;

struct Entry {
    BlockKey key;
    BlockKey parent;
    uint32_t group = 0;
    uint32_t slot = 0;
    uint32_t users = 0;
    bool ready = false;
    bool doomed = false;
};

class HostStore final : public TierStore {
 public:
    HostStore(const HostOptions& options, std::unique_ptr<SlotArena> arena,
              const EvictionRow& evict)
        : options_(options),
          arena_(std::move(arena)),
          workers_("quire-host", options.threads, options.queue_max) {
        entries_.reserve(size_t{arena_->slots_max()} * arena_->groups());
        for (size_t g = 0; g < arena_->groups(); ++g) {
            policies_.push_back(evict.make(arena_->slots(g)));
            by_slot_.emplace_back(arena_->slots(g), nullptr);
        }
    }

    ~HostStore() override { workers_.drain(); }

    TierInfo info() const override {
        return {Tier::g2,
                "host",
                {.zero_copy = true, .lists = true, .copies = true},
                arena_->capacity_bytes()};
    }

    void contains(std::span<const BlockKey> keys, std::span<uint8_t> present) const override {
        std::lock_guard lock(mutex_);
        for (size_t i = 0; i < keys.size(); ++i) {
            const auto it = entries_.find(keys[i]);
            present[i] = it != entries_.end() && it->second.ready && !it->second.doomed;
        }
    }

    Status get(std::vector<TierGet> batch, TierDone done, TierLanding landing) override {
        auto flight = std::make_shared<GetFlight>(std::move(batch), std::move(done));
        const uint32_t landing_layers = landing.layers;
        if (landing.layers > 0) flight->pieces = cut_slab(landing.layers, landing.layer_bytes);
        flight->landing.emplace(std::move(landing), flight->pieces, flight->items.size());
        hold_entries(*flight, landing_layers);
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
        for (const BlockKey& key : keys) {
            const auto it = entries_.find(key);
            if (it == entries_.end() || it->second.doomed) continue;
            Entry& entry = it->second;
            if (entry.ready) policies_[entry.group]->erase(entry.slot);
            entry.doomed = true;
            if (entry.users == 0) forget(entry);
        }
    }

    Result<std::vector<TierEntry>> list() const override {
        std::vector<TierEntry> all;
        std::lock_guard lock(mutex_);
        for (const auto& [key, entry] : entries_)
            if (entry.ready && !entry.doomed)
                all.push_back(
                    {key, entry.parent, static_cast<uint32_t>(arena_->slab_bytes(entry.group))});
        return all;
    }

    TierStats stats() const override {
        std::lock_guard lock(mutex_);
        TierStats stats = stats_;
        stats.capacity_bytes = arena_->capacity_bytes();
        for (size_t g = 0; g < arena_->groups(); ++g)
            stats.used_bytes +=
                uint64_t{arena_->slots(g) - arena_->free_slots(g)} * arena_->slab_bytes(g);
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
    struct GetFlight {
        std::vector<TierGet> items;
        TierDone done;
        std::vector<SlabPiece> pieces{{0, std::numeric_limits<uint32_t>::max(), 0, 0}};
        std::optional<LandingCount> landing;
        std::vector<Entry*> entries;  // per item, used until the end; nullptr: nothing to copy
        std::vector<Status> results;  // under results_mutex until the last task
        std::mutex results_mutex;
        std::atomic<size_t> open{0};
        int64_t start_ns = system_clock().monotonic_ns();

        GetFlight(std::vector<TierGet> gets, TierDone when_done)
            : items(std::move(gets)),
              done(std::move(when_done)),
              entries(items.size()),
              results(items.size()) {}
        // The first thing that went wrong counts.
        void fail(size_t item, const Status& why) {
            {
                std::lock_guard lock(results_mutex);
                if (results[item].ok()) results[item] = why;
            }
            landing->failed();
        }
    };

    void leave() {
        std::lock_guard lock(idle_mutex_);
        pending_.fetch_sub(1);
        idle_.notify_all();
    }

    // `layers`: what each slab must have, when the caller said so.
    void hold_entries(GetFlight& flight, uint32_t layers) {
        std::lock_guard lock(mutex_);
        for (size_t i = 0; i < flight.items.size(); ++i) {
            const TierGet& item = flight.items[i];
            ++stats_.gets;
            const auto it = entries_.find(item.key);
            if (it == entries_.end() || !it->second.ready || it->second.doomed) {
                flight.fail(i, make_error(Code::miss, "not in the host pool"));
                continue;
            }
            Entry& entry = it->second;
            const KvGroup& shape = options_.layout.groups[entry.group];
            if (item.into.size() != arena_->slab_bytes(entry.group) ||
                (layers > 0 && layers != shape.layers.size())) {
                flight.fail(i, make_error(Code::invalid, "the buffer is not of the slab's shape"));
                continue;
            }
            flight.entries[i] = &entry;
            ++entry.users;
            policies_[entry.group]->touch(entry.slot);
        }
    }

    // One piece of some of the batch's slabs.
    void copy_out(GetFlight& flight, size_t piece, size_t first) {
        const size_t end = std::min(flight.items.size(), first + kBlocksPerTask);
        for (size_t i = first; i < end; ++i) {
            const Entry* entry = flight.entries[i];
            if (!entry) continue;
            const SlabPiece& layers = flight.pieces[piece];
            const Status copied =
                copy_slab_layers(arena_->data(entry->group, entry->slot), flight.items[i].into,
                                 layers.first_layer, layers.end_layer);
            if (copied.ok())
                flight.landing->landed(piece);
            else
                flight.fail(i, copied);
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

    // Counts what became of a batch and gives its entries back.
    void let_go(GetFlight& flight) {
        std::lock_guard lock(mutex_);
        for (size_t i = 0; i < flight.items.size(); ++i) {
            Entry* entry = flight.entries[i];
            if (!entry) continue;
            if (flight.results[i].ok()) {
                ++stats_.get_hits;
                stats_.get_bytes += flight.items[i].into.size();
            } else if (flight.results[i].code() == Code::corrupt) {
                ++stats_.corrupt_blocks;
                if (!entry->doomed) policies_[entry->group]->erase(entry->slot);
                entry->doomed = true;
            }
            if (--entry->users == 0 && entry->doomed) forget(*entry);
        }
        stats_.get_ns += static_cast<uint64_t>(system_clock().monotonic_ns() - flight.start_ns);
    }

    Status put_one(const TierPut& item) {
        const int64_t start_ns = system_clock().monotonic_ns();
        QUIRE_TRY(verify_slab_header(item.slab));
        const SlabHeader& header = slab_header(item.slab);
        if (header.key != item.key || header.group >= arena_->groups() ||
            item.slab.size() != arena_->slab_bytes(header.group))
            return make_error(Code::invalid, "the slab is not the block its key names");
        Entry* entry = nullptr;
        bool evicted = false;  // the slot still holds what was given up for this
        {
            std::lock_guard lock(mutex_);
            if (entries_.contains(item.key)) return {};  // there, or on its way
            evicted = arena_->free_slots(header.group) == 0;
            entry = reserve(item.key, header);
            if (!entry) {
                ++stats_.puts_rejected;
                return make_error(Code::full, "every block of the host pool is in use");
            }
        }
        const std::span<std::byte> slot = arena_->data(entry->group, entry->slot);
        if (evicted && evicted_) evicted_(slot);
        std::memcpy(slot.data(), item.slab.data(), item.slab.size());
        std::lock_guard lock(mutex_);
        --entry->users;
        ++stats_.puts;
        stats_.put_bytes += item.slab.size();
        stats_.put_ns += static_cast<uint64_t>(system_clock().monotonic_ns() - start_ns);
        if (entry->doomed) {
            forget(*entry);
            return {};
        }
        entry->ready = true;
        ++stats_.blocks;
        policies_[entry->group]->insert(
            entry->slot,
            {header.prefix.value, header.first_position / header.token_count, false, 0});
        return {};
    }

    // A slot for a new entry, evicting if need be; nullptr if nothing may go. Holds mutex_.
    Entry* reserve(const BlockKey& key, const SlabHeader& header) {
        const uint32_t group = header.group;
        uint32_t slot = arena_->take(group);
        if (slot == kNoArenaSlot) {
            if (!evict_one(group)) return nullptr;
            slot = arena_->take(group);
        }
        Entry& entry = entries_[key];
        entry = {key, header.parent_key, group, slot, 1, false, false};
        by_slot_[group][slot] = &entry;
        ++children_[header.parent_key];
        return &entry;
    }

    bool evict_one(uint32_t group) {
        struct Context {
            HostStore* store;
            uint32_t group;
        } context{this, group};
        const Evictable ask{[](void* c, uint32_t slot) {
                                const auto* self = static_cast<const Context*>(c);
                                const Entry* e = self->store->by_slot_[self->group][slot];
                                return e->users == 0 && !self->store->children_.contains(e->key);
                            },
                            &context};
        uint32_t victim = 0;
        if (policies_[group]->take_victims({&victim, 1}, ask) == 0) return false;
        ++stats_.evicted_blocks;
        forget(*by_slot_[group][victim]);
        return true;
    }

    // Removes an entry that is in no policy and that nobody uses. Holds mutex_.
    void forget(Entry& entry) {
        if (const auto it = children_.find(entry.parent); --it->second == 0) children_.erase(it);
        stats_.blocks -= entry.ready;
        by_slot_[entry.group][entry.slot] = nullptr;
        arena_->give(entry.group, entry.slot);
        const BlockKey key = entry.key;
        entries_.erase(key);
    }

    HostOptions options_;
    std::unique_ptr<SlotArena> arena_;
    mutable std::mutex mutex_;
    std::unordered_map<BlockKey, Entry, Hash128Hasher> entries_;
    std::unordered_map<BlockKey, uint32_t, Hash128Hasher> children_;
    std::vector<std::vector<Entry*>> by_slot_;
    std::vector<std::unique_ptr<EvictionPolicy>> policies_;
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
    auto arena = SlotArena::create(options.layout, options.capacity_bytes, 1);
    if (!arena.ok()) return arena.error();
    return std::unique_ptr<TierStore>(new HostStore(options, std::move(arena).value(), *evict));
}

}  // namespace quire
