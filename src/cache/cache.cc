#include "cache/cache.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "format/slab.h"

namespace quire {
namespace {

constexpr uint32_t kMinSlots = 16;
constexpr uint32_t kRecentPrompts = 64;
constexpr uint64_t kRecentTokens = 1 << 20;

std::vector<GroupNeed> group_needs(const KvLayout& layout) {
    std::vector<GroupNeed> needs;
    for (size_t g = 0; g < layout.groups.size(); ++g) {
        const BlockRange kept = layout.kept_blocks(g, ~0u);
        needs.push_back(
            {layout.groups[g].kind, layout.groups[g].window_tokens, kept.first, kept.end});
    }
    return needs;
}

// Blocks that are open at once: of one lease those that a step completes, the one before, and the
// one after, or with spans of several blocks the rest of one; of others, mostly a span.
OpenSlots open_slots(const CacheOptions& options) {
    const uint32_t span = options.layout.span_blocks();
    const uint32_t least = options.step_tokens / options.layout.block_tokens + 1 + span;
    return {least, least + options.leases_max * span};
}

}  // namespace

Cache::Cache(const CacheOptions& options, const Clock& clock, std::function<void()> wake)
    : options_(options),
      clock_(clock),
      wake_(std::move(wake)),
      recent_(kRecentPrompts, kRecentTokens) {}

Result<std::unique_ptr<Cache>> Cache::create(const CacheOptions& options,
                                             std::vector<LowerTier> tiers, const Clock& clock,
                                             std::function<void()> wake) {
    QUIRE_TRY(options.layout.validate());
    const EvictionRow* evict = find_eviction(options.evict);
    if (!evict)
        return make_error(Code::invalid,
                          "unknown eviction policy '" + std::string(options.evict) + "'");
    auto arena =
        SlotArena::create(options.layout, options.g1_bytes, kMinSlots, true, open_slots(options));
    if (!arena.ok()) return arena.error();

    std::unique_ptr<Cache> cache(new Cache(options, clock, std::move(wake)));
    cache->arena_ = std::move(arena).value();
    const uint32_t slots = cache->arena_->slots_max();
    IndexOptions index_options;
    index_options.block_tokens = options.layout.block_tokens;
    index_options.groups = group_needs(options.layout);
    // Every published block plus the prefixes of leases in flight.
    index_options.max_blocks = std::max<uint32_t>(4 * slots + 1024, 4096);
    auto index = PrefixIndex::create(index_options);
    if (!index.ok()) return index.error();
    cache->index_ = std::move(index).value();
    for (const KvGroup& group : options.layout.groups) {
        auto& upto = cache->layers_upto_.emplace_back(size_t{group.layers.back()} + 1, 0u);
        for (uint32_t i = 0; i < group.layers.size(); ++i) upto[group.layers[i]] = i + 1;
    }
    std::copy(std::begin(options.cost.load_ns_per_byte), std::end(options.cost.load_ns_per_byte),
              cache->load_ns_per_byte_);
    const size_t groups = options.layout.groups.size();
    for (size_t g = 0; g < groups; ++g) cache->slot_states_.emplace_back(cache->arena_->slots(g));
    cache->due_stride_ = slots;
    cache->due_ = IdLists(static_cast<uint32_t>(groups) * slots, 1);

    std::vector<TierStore*> stores;
    for (const LowerTier& lower : tiers) {
        const AdmissionRow* row = find_admission(lower.admit);
        if (!row)
            return make_error(Code::invalid,
                              "unknown admission policy '" + std::string(lower.admit) + "'");
        cache->tiers_.push_back(
            {lower.store, lower.store->info().tier, row->make(4 * slots), -1, lower.write_through});
        stores.push_back(lower.store);
        cache->note_origins(*lower.store);
    }
    Cache* self = cache.get();
    cache->pool_ =
        std::make_unique<G1Pool>(options.layout, *cache->arena_, *cache->index_, *evict,
                                 [self](uint32_t group, BlockIndex block, uint32_t slot) {
                                     self->on_evict(group, block, slot);
                                 });
    cache->storer_ = std::make_unique<Storer>(std::move(stores), [self](StoreDone&& done) {
        self->mailbox_.post({nullptr, std::make_unique<StoreDone>(std::move(done)), nullptr});
        if (self->wake_) self->wake_();
    });
    QUIRE_TRY(cache->open_demotion());
    return cache;
}

Cache::~Cache() {
    // Movers use the arena: wait for loads here and for stores in the storer's destructor.
    while (!loads_.empty() || reading_down_ > 0) {
        mailbox_.wait(1'000'000'000);
        for (Message& message : mailbox_.drain()) {
            if (message.loaded) on_loaded(*message.loaded);
            if (message.departed) on_departed(*message.departed);
        }
    }
    begin_stores(UINT64_MAX);
    storer_.reset();
    close_demotion();
}

void Cache::observe(Metric metric, Tier tier, int64_t from_ns, int64_t to_ns) {
    if (options_.metrics)
        options_.metrics->histogram(metric, tier)
            .observe(static_cast<double>(to_ns - from_ns) / 1e9);
}

void Cache::on_evict(uint32_t group, BlockIndex block, uint32_t slot) {
    const int64_t now = clock_.monotonic_ns();
    SlotState& state = slot_states_[group][slot];
    const PrefixHash hash = index_->hash(block);
    const uint8_t held = demote_from_g1(group, slot, hash, state);
    note_departure(hash, held, state.refused, now);
    observe(Metric::block_lifetime_seconds, Tier::g1, state.published_ns, now);
    observe(Metric::block_idle_before_evict_seconds, Tier::g1, state.used_ns, now);
    state = {};
    if (evict_reason_ == MissReason::evicted) ++stats_.evicted_blocks;
}

Lease& Cache::lease(LeaseId id) {
    const auto it = leases_.find(id);
    QUIRE_CHECK(it != leases_.end(), "no such lease");
    return *it->second;
}

const Lease& Cache::lease(LeaseId id) const {
    return const_cast<Cache*>(this)->lease(id);
}

const LeaseInfo& Cache::info(LeaseId id) const {
    return lease(id).info;
}

std::span<std::byte* const> Cache::table(LeaseId id, uint32_t group) const {
    return lease(id).tables[group].slabs;
}

const TenantKeys& Cache::tenant_keys(const std::string& tenant) {
    auto [it, added] = tenants_.try_emplace(tenant);
    if (added) {
        it->second.number = static_cast<uint16_t>(std::min<size_t>(tenants_.size(), 65535));
        for (uint32_t g = 0; g < options_.layout.groups.size(); ++g)
            it->second.scopes.push_back(key_scope(options_.model, options_.layout.digest(), g,
                                                  options_.layout.groups[g].pages.codec, tenant));
    }
    return it->second;
}

std::vector<LeaseId> Cache::poll(bool busy) {
    handle_messages();
    const int64_t now = clock_.monotonic_ns();
    std::vector<LeaseId> expired;
    for (auto& [id, held] : leases_) {
        if (held->deadline_ns > 0 && now >= held->deadline_ns) expired.push_back(id);
        if (held->info.state != LeaseState::waiting) continue;
        if (retry_waiting_ || now >= held->wait_until_ns) start(*held);
    }
    retry_waiting_ = false;
    stats_.expired_leases += expired.size();
    if (!busy || due_bytes_ > store_bytes_max() / 2) begin_stores(store_bytes_max());
    return expired;
}

bool Cache::has_room(uint32_t tokens) const {
    for (uint32_t g = 0; g < options_.layout.groups.size(); ++g)
        if (slots_needed(g, tokens, 0) > pool_->available(g)) return false;
    return true;
}

// Groups that keep only sinks hold them, the open span and the blocks that one step completes.
uint32_t Cache::slots_needed(uint32_t group, uint32_t tokens, uint32_t more) const {
    const KvLayout& layout = options_.layout;
    const uint32_t blocks = (tokens + more + layout.block_tokens - 1) / layout.block_tokens;
    const BlockRange whole = layout.needed_blocks(group, tokens);
    switch (layout.groups[group].keep) {
        case KvKeep::sinks:
            return whole.count() +
                   std::min(blocks - std::min(blocks, whole.end), open_slots(options_).least);
        case KvKeep::rest:
            return blocks - std::min(blocks, whole.first);
        case KvKeep::all:
            break;
    }
    return blocks - whole.first;
}

Status Cache::grow(LeaseId id, uint32_t tokens) {
    Lease& held = lease(id);
    const uint32_t blocks =
        (tokens + options_.layout.block_tokens - 1) / options_.layout.block_tokens;
    for (uint32_t g = 0; g < held.tables.size(); ++g) {
        LeaseTable& table = held.tables[g];
        const uint32_t from =
            options_.layout.groups[g].keep == KvKeep::rest ? options_.layout.sink_blocks() : 0;
        while (table.slots.size() < blocks) {
            if (table.slots.size() < from) {
                table.slots.push_back(kNoArenaSlot);
                table.slabs.push_back(nullptr);
                continue;
            }
            const uint32_t slot = pool_->take(g);
            if (slot == kNoArenaSlot)
                return make_error(Code::full, "every KV page of --kv-memory is in use");
            slot_states_[g][slot] = {};
            table.slots.push_back(slot);
            table.slabs.push_back(pool_->data(g, slot).data());
        }
    }
    return {};
}

void Cache::append(LeaseId id, TokenId token) {
    lease(id).chain.append({&token, 1});
}

void Cache::release(LeaseId id) {
    Lease& held = lease(id);
    unregister_computing(held);
    // The chain's use counts now, last block first: parents stay more recent than their children.
    for (uint32_t g = 0; g < held.tables.size(); ++g) {
        const std::vector<uint32_t>& slots = held.tables[g].slots;
        for (size_t b = slots.size(); b-- > 0;)
            if (slots[b] != kNoArenaSlot && pool_->published(g, slots[b]))
                pool_->touch(g, slots[b]);
    }
    let_go(held);
    leases_.erase(id);
    retry_waiting_ = true;  // leases that waited for this one must look again
}

uint64_t Cache::flush(Tier tier) {
    if (tier == Tier::g1) {
        evict_reason_ = MissReason::flushed;
        const uint64_t dropped = pool_->evict_all();
        evict_reason_ = MissReason::evicted;
        stats_.flushed_blocks += dropped;
        return dropped;
    }
    for (Lower& lower : tiers_) {
        if (lower.tier != tier) continue;
        auto entries = lower.store->list();
        if (!entries.ok()) return 0;
        std::vector<BlockKey> keys;
        for (const TierEntry& entry : *entries) keys.push_back(entry.key);
        lower.store->erase(keys);
        for (auto& group : slot_states_)
            for (SlotState& state : group)
                state.stored &= static_cast<uint8_t>(~(1u << (&lower - tiers_.data())));
        lower.flushed_ns = clock_.monotonic_ns();
        stats_.flushed_blocks += keys.size();
        return keys.size();
    }
    return 0;
}

CacheStats Cache::stats() const {
    CacheStats stats = stats_;
    const G1Pool::Stats pool = pool_->stats();
    const IndexStats index = index_->stats();
    stats.leases = leases_.size();
    stats.pending_stores += due_.size(0);
    stats.pending_store_bytes += due_bytes_;
    for (const auto& [id, held] : leases_)
        stats.leases_waiting += held->info.state != LeaseState::ready;
    for (const auto& [id, op] : loads_) stats.pending_loads += op.items.size();
    stats.pinned_blocks = pool.pinned;
    stats.g1_blocks = pool.published;
    stats.g1_used_bytes = pool.used_bytes;
    stats.g1_capacity_bytes = pool.capacity_bytes;
    stats.index_blocks = index.blocks;
    for (const auto& [tenant, keys] : tenants_)
        stats.tenant_blocks.emplace_back(tenant, index_->tenant_blocks(keys.number));
    stats.index_bytes = index.memory_bytes;
    return stats;
}

}  // namespace quire
