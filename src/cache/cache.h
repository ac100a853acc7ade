// Cache: the block manager. Lookup → plan → load → verify → pin → publish → store below.
//
// The engine's view: acquire() a lease for a prompt, poll() until it is ready, attend through
// table(), grow() it before each step, append() sampled tokens, commit() what was computed,
// release() it on every path. Blocks are shared read-only once published; a lease never copies KV
// to use it.
//
// Life of a block: grow() takes a slot (filling) → the engine computes into it → commit() hashes
// it, publishes it in the index and offers it to the lower tiers → release() unpins it → it stays
// until evicted → a later acquire() finds it in G1, or reads it back from a lower tier, verified.
//
// Any doubt is a miss: a load that fails in any way makes the lease plan anew without that block. A
// slot is reused only after its last pin went, and a mover holds a pin until it reports back.
//
// Threads: everything is called by one thread, the engine's. Movers report through a mailbox that
// poll() drains; `wake` is called (on any thread) when there is something to poll.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/buffer_pool.h"
#include "base/mailbox.h"
#include "cache/cache_types.h"
#include "cache/g1_pool.h"
#include "cache/lease.h"
#include "cache/lookup.h"
#include "cache/recent_prompts.h"
#include "cache/storer.h"
#include "policy/id_list.h"

namespace quire {

class Cache {
 public:
    // `tiers` in order of speed; `clock` and the stores outlive the cache.
    static Result<std::unique_ptr<Cache>> create(const CacheOptions& options,
                                                 std::vector<LowerTier> tiers, const Clock& clock,
                                                 std::function<void()> wake);
    // Waits for movers in flight.
    ~Cache();

    // A lease for the prompt, or: invalid (empty prompt), full (it can never fit in G1; the message
    // says what would). The lease may still be waiting or loading: see info().
    Result<LeaseId> acquire(const AcquireRequest& request);
    // Tokens up to which a lease can grow when nobody else holds pages.
    uint32_t lease_tokens_max() const;
    const LeaseInfo& info(LeaseId id) const;
    // Handles what movers reported; retries waiting leases. Returns leases past their deadline.
    // Stores of published blocks begin here, as many as may be under way at once, unless `busy`
    // says that somebody waits for a first token: then they are put off, within a bound, so that
    // copying never competes with computing it.
    std::vector<LeaseId> poll(bool busy = false);

    // While a lease is loading, a step may begin with what has landed (cache_landing.cc): grow()
    // it, attend through table() to [0, cached_tokens) of each layer that wait_layer() says ok for,
    // and settle() it before anything else is done with it.
    //
    LoadLeft load_left(LeaseId id) const;
    // Waits until the lease's cached pages of a layer (the model's number) are in G1, verified, and
    // of the blocks asked for. timeout; or corrupt: they never will be.
    Status wait_layer(LeaseId id, uint32_t layer, int64_t timeout_ns);
    // Handles what movers reported until the lease is ready; false when it is not within
    // timeout_ns, or was planned anew because a load failed: what was computed on it is void.
    bool settle(LeaseId id, int64_t timeout_ns);

    // Whether every group could give pages for `tokens` tokens now (an upper bound).
    bool has_room(uint32_t tokens) const;
    // Makes every group's pages for positions [.., tokens) exist. full: nothing can be evicted now.
    Status grow(LeaseId id, uint32_t tokens);
    std::span<std::byte* const> table(LeaseId id, uint32_t group) const;
    void append(LeaseId id, TokenId token);
    // KV of positions [0, computed_tokens) is complete; publishes blocks that became whole.
    void commit(LeaseId id, uint32_t computed_tokens);
    // Stores the lease's published blocks in the first lower tier whatever admission says
    // (preemption).
    void spill(LeaseId id);
    void release(LeaseId id);

    CacheExplanation explain(TokenSpan prompt, const Namespace& ns);
    // Offers every published block to the lower tiers that lack it, whatever admission says. True
    // when nothing is left to offer and nothing is pending; call again after stores completed
    // otherwise, with the same `pass`: what a tier could not store in a pass is not offered again.
    bool store_all(uint64_t pass);
    // Nobody waits for the pass any more. Returns how many blocks it could not store.
    size_t end_pass();
    // Drops all unpinned blocks of a tier; returns how many.
    uint64_t flush(Tier tier);
    // Whether movers hold pages: some will be free when they report.
    bool moving() const { return held_store_bytes_ > 0 || !loads_.empty(); }
    CacheStats stats() const;
    const KvLayout& layout() const { return options_.layout; }
    CostModel& cost() { return options_.cost; }

 private:
    // One block being read into a slot, and the leases that wait for it.
    struct LoadItem {
        uint32_t group = 0, slot = 0, position = 0;
        BlockKey key;
        PrefixHash hash, parent;
        BlockIndex block = kNoBlock;
        std::vector<TokenId> tokens;
        std::vector<LeaseId> waiters;
    };
    struct LoadOp {
        size_t lower = 0;  // index into tiers_
        int64_t started_ns = 0;
        uint64_t bytes = 0;
        std::vector<LoadItem> items;  // of one group
        std::shared_ptr<LoadProgress> progress;
        bool matched = false;  // all headers are those of the blocks asked for
    };
    struct LoadDone {
        uint64_t op = 0;
        std::vector<Status> results;
        int64_t at_ns = 0;
    };
    // A block that a lower tier gave up, or that was read from it to be written further down.
    struct Departed {
        size_t lower = 0;  // index into tiers_
        uint32_t group = 0;
        BlockKey key;
        PrefixHash prefix;
        size_t bytes = 0;
        PooledBuffer copy;  // empty: nobody below wants it, or no buffer was free
        bool evicted = true;
    };
    struct Message {
        std::unique_ptr<LoadDone> loaded;
        std::unique_ptr<StoreDone> stored;
        std::unique_ptr<Departed> departed;
    };
    struct Lower {
        TierStore* store;
        Tier tier;
        std::unique_ptr<AdmissionPolicy> admission;
        int64_t flushed_ns = -1;  // the last flush; -1: never
        bool write_through = true;
    };
    struct SlotState {
        int64_t published_ns = 0;
        int64_t used_ns = 0;
        bool storing = false;  // a store batch holds it
        bool sealed = false;   // header checksums are valid
        uint8_t stored = 0;    // bit i: the i-th lower tier said ok
        uint8_t refused = 0;   // bit i: its admission did not want the block
        uint8_t due = 0;       // bit i: it ought to get the block, and no store has begun
    };
    struct Survey {
        SourceTable sources;
        std::vector<BlockIndex> known;  // as find() wrote them
        uint32_t known_blocks = 0;
        std::vector<bool> ends;  // prefix lengths that every group can serve (lookup.h)
        uint32_t usable = 0;     // the longest
    };

    Cache(const CacheOptions& options, const Clock& clock, std::function<void()> wake);
    Lease& lease(LeaseId id);
    const Lease& lease(LeaseId id) const;
    const TenantKeys& tenant_keys(const std::string& tenant);

    // cache_acquire.cc
    Survey survey(const BlockChain& chain, const TenantKeys& keys, uint32_t limit);
    uint32_t plan(const Survey& found, uint32_t prompt_tokens, MissReason& reason) const;
    void start(Lease& lease);
    uint32_t next_end(uint32_t n, uint32_t limit) const;
    bool must_wait(const Lease& lease, const Survey& found, uint32_t limit) const;
    bool hold_prefix(Lease& lease, const Survey& found, uint32_t use);
    void hold_block(Lease& lease, uint32_t group, uint32_t block, uint32_t slot);
    void know_prefix(Lease& lease, uint32_t blocks);
    void let_go(Lease& lease);
    void become_ready(Lease& lease);
    void copy_last_block(Lease& lease);
    void note_use(Lease& lease, const Survey& found, uint32_t use);
    void register_computing(Lease& lease, uint32_t from_block);
    void unregister_computing(Lease& lease);

    // cache_explain.cc
    struct Why {
        MissReason reason = MissReason::never_seen;
        Tier tier = Tier::g1;
        int64_t ago_ns = -1;  // -1: unknown
        SlabOrigin holder;
    };
    void set_miss(Lease& lease, const Survey& found, uint32_t use, uint32_t limit);
    Why why_missing(const BlockChain& chain, const Namespace& ns, const Survey& found,
                    uint32_t next) const;
    Why why_gone(const Ghost& ghost) const;
    void note_departure(const PrefixHash& hash, uint8_t held_below, uint8_t refused,
                        int64_t now_ns);
    void note_origins(const TierStore& store);
    const SlabOrigin* held_by_other(const BlockChain& chain, const Namespace& ns,
                                    uint32_t block) const;

    // cache_load.cc
    void begin_loads(Lease& lease, std::vector<std::vector<LoadItem>> per_tier);
    void join_load(Lease& lease, uint64_t op);
    void begin_load(Lease& lease, size_t lower, std::span<LoadItem> items);
    void on_loaded(LoadDone& done);
    void finish_item(LoadOp& op, LoadItem& item, const Status& read, int64_t at_ns);
    Status match(const LoadItem& item) const;
    void learn_load(const LoadOp& op, int64_t elapsed_ns);

    // cache_landing.cc
    bool match_landing(const LandingRef& landing);
    void handle_messages();

    // Seconds between two times into a histogram by tier, when metrics are wanted.
    void observe(Metric metric, Tier tier, int64_t from_ns, int64_t to_ns);
    void on_evict(uint32_t group, BlockIndex block, uint32_t slot);

    // cache_store.cc
    void publish_block(Lease& lease, uint32_t block);
    void write_header(const Lease& lease, uint32_t group, uint32_t block,
                      std::span<std::byte> slab);
    uint8_t wanted_tiers(uint32_t group, uint32_t slot, const PrefixHash& hash, const BlockKey& key,
                         bool force);
    void submit_stores(std::vector<StoreItem> items);
    void on_stored(StoreDone& done);
    void on_stored_slot(const StoreItem& item, uint8_t stored);

    // cache_due.cc
    void owe(uint32_t group, uint32_t slot, uint8_t tiers);
    uint8_t take_due(uint32_t group, uint32_t slot);
    void begin_stores(uint64_t held_bytes_max);
    uint64_t store_bytes_max() const;
    StoreItem hold_for_store(uint32_t group, uint32_t slot);
    void count_busy(uint8_t tiers);

    // cache_demote.cc
    Status open_demotion();
    void close_demotion();
    bool holds(size_t lower, const BlockKey& key) const;
    // Which tiers at or below `from` hold the block, or want it now (`wants`), or refused it.
    struct Below {
        uint8_t held = 0, refused = 0;
        size_t wants = SIZE_MAX;
    };
    Below look_below(size_t from, const BlockKey& key, const PrefixHash& hash, bool force);
    void begin_copies();
    void demote(StoreItem item, uint8_t tiers, size_t bytes);
    uint8_t demote_from_g1(uint32_t group, uint32_t slot, const PrefixHash& hash, SlotState& state);
    std::unique_ptr<Departed> copy_departing(size_t lower, std::span<const std::byte> slab);
    void on_departed(Departed& departed);
    bool copy_down();
    void trim(Lease& lease);
    void let_go_blocks(Lease& lease, uint32_t group, BlockRange blocks);
    // Slots of a group that a lease of `tokens` tokens holds at most while `more` are added.
    uint32_t slots_needed(uint32_t group, uint32_t tokens, uint32_t more) const;

    CacheOptions options_;
    const Clock& clock_;
    std::function<void()> wake_;
    std::vector<Lower> tiers_;
    std::unique_ptr<SlotArena> arena_;
    std::unique_ptr<PrefixIndex> index_;
    std::unique_ptr<G1Pool> pool_;
    std::vector<std::vector<SlotState>> slot_states_;  // [group][slot]

    std::unordered_map<LeaseId, std::unique_ptr<Lease>> leases_;
    LeaseId next_lease_ = 1;
    std::unordered_map<PrefixHash, LeaseId, Hash128Hasher> computing_;
    bool retry_waiting_ = false;

    // [group][the model's layer number]: layers of the group up to and with that one; 0: not there
    std::vector<std::vector<uint32_t>> layers_upto_;
    double load_ns_per_byte_[kTierCount] = {};  // as seen lately
    std::unordered_map<uint64_t, LoadOp> loads_;
    uint64_t next_op_ = 1;
    std::unordered_map<BlockKey, std::pair<uint64_t, size_t>, Hash128Hasher> loading_;
    std::unordered_map<std::string, TenantKeys> tenants_;  // as many as are configured

    IdLists due_{0, 1};  // slots with SlotState::due, group * due_stride_ + slot, oldest first
    uint32_t due_stride_ = 0;
    uint64_t due_bytes_ = 0;
    uint64_t held_store_bytes_ = 0;       // of slots that stores under way have pinned
    bool demotes_ = false;                // some tier below does not write through
    std::unique_ptr<BufferPool> copies_;  // null: nothing is below
    uint64_t copies_put_off_ = 0;
    uint64_t reading_down_ = 0;       // blocks being read by copy_down()
    uint64_t pass_ = 0;               // of store_all(); 0: none
    std::unordered_set<BlockKey, Hash128Hasher> not_stored_;  // in that pass
    std::vector<StoreItem> put_off_;  // copies counted as pending, not yet with the storer

    Ghosts ghosts_;
    RecentPrompts recent_;
    std::vector<SlabOrigin> others_;  // models and layouts, not ours, whose slabs the tiers hold
    CacheStats stats_;
    MissReason evict_reason_ = MissReason::evicted;

    Mailbox<Message> mailbox_;
    std::unique_ptr<Storer> storer_;  // last: its thread uses everything above
};

}  // namespace quire
