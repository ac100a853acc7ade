// From a prompt to a lease: what is where, what to take, what to wait for.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "cache/cache.h"

namespace quire {
namespace {

// A lease waits this long at most for another one that computes the same blocks.
constexpr int64_t kSharedWaitMax_ns = int64_t{60} * 1'000'000'000;
// A lease whose loads failed plans anew this often, then computes everything.
constexpr int kAttemptsMax = 3;

}  // namespace

Result<LeaseId> Cache::acquire(const AcquireRequest& request) {
    if (request.prompt.empty()) return make_error(Code::invalid, "the prompt has no tokens");
    const uint32_t block_tokens = options_.layout.block_tokens;
    const auto tokens = static_cast<uint32_t>(request.prompt.size());
    for (uint32_t g = 0; g < options_.layout.groups.size(); ++g) {
        if (slots_needed(g, tokens, 1) > pool_->slots(g))
            return make_error(Code::full, "a prompt of " + std::to_string(tokens) +
                                              " tokens does not fit in --kv-memory, which holds " +
                                              std::to_string(pool_->slots(g) * block_tokens) +
                                              " tokens; give it more");
    }
    const Namespace ns{request.tenant, request.salt};
    auto made = std::make_unique<Lease>(BlockChain(chain_root(options_.model, ns), block_tokens));
    made->id = next_lease_++;
    made->tenant = request.tenant;
    made->salt = request.salt;
    made->keys = &tenant_keys(request.tenant);
    made->chain.append(request.prompt);
    made->prompt_tokens = tokens;
    made->deadline_ns = request.deadline_ns;
    made->reuse = request.reuse;
    made->wait_until_ns = clock_.monotonic_ns() + kSharedWaitMax_ns;
    made->tables.resize(options_.layout.groups.size());
    Lease& held = *made;
    leases_.emplace(held.id, std::move(made));
    ++stats_.lookups;
    stats_.lookup_tokens += tokens;
    start(held);
    return held.id;
}

uint32_t Cache::lease_tokens_max() const {
    const KvLayout& layout = options_.layout;
    for (uint32_t g = 0; g < layout.groups.size(); ++g) {
        if (layout.groups[g].kind != KvKind::full || layout.groups[g].keep == KvKeep::sinks)
            continue;
        const uint64_t blocks = pool_->slots(g) + layout.kept_blocks(g, ~0u).first;
        return static_cast<uint32_t>(std::min<uint64_t>(blocks * layout.block_tokens, UINT32_MAX));
    }
    return UINT32_MAX;  // windows slide on
}

Cache::Survey Cache::survey(const BlockChain& chain, const TenantKeys& tenant, uint32_t limit) {
    Survey found;
    const auto hashes = chain.blocks().first(limit);
    found.known.assign(limit, kNoBlock);
    found.known_blocks = index_->find(hashes, found.known);
    found.sources.assign(options_.layout.groups.size(), std::vector<Source>(limit, Source::absent));
    std::vector<BlockKey> keys;
    std::vector<uint32_t> where;
    std::vector<uint8_t> present;
    for (uint32_t g = 0; g < found.sources.size(); ++g) {
        keys.clear();
        where.clear();
        const BlockRange kept = options_.layout.kept_blocks(g, limit);
        for (uint32_t b = kept.first; b < kept.end; ++b) {
            if (b < found.known_blocks && index_->slot(found.known[b], g, Tier::g1) != kNoSlot) {
                found.sources[g][b] = Source::g1;
                continue;
            }
            const BlockKey k = tenant.key(g, hashes[b]);
            if (loading_.contains(k)) {
                found.sources[g][b] = Source::loading;
                continue;
            }
            keys.push_back(k);
            where.push_back(b);
        }
        for (const Lower& lower : tiers_) {
            present.assign(keys.size(), 0);
            lower.store->contains(keys, present);
            for (size_t i = 0; i < keys.size(); ++i)
                if (present[i] && found.sources[g][where[i]] == Source::absent)
                    found.sources[g][where[i]] = source_of(lower.tier);
        }
    }
    found.ends = usable_ends(options_.layout, found.sources, limit);
    found.usable = longest_usable(found.ends);
    return found;
}

uint32_t Cache::plan(const Survey& found, uint32_t prompt_tokens, MissReason& reason) const {
    std::vector<PrefixBlock> blocks(found.usable);
    for (uint32_t b = 0; b < found.usable; ++b) {
        blocks[b].loadable = true;
        blocks[b].can_end = found.ends[b];
        for (uint32_t g = 0; g < found.sources.size(); ++g) {
            if (!options_.layout.needed_blocks(g, found.usable * options_.layout.block_tokens)
                     .has(b))
                continue;
            const Tier tier = tier_of(found.sources[g][b]);
            blocks[b].slowest = std::max(blocks[b].slowest, tier);
            if (tier != Tier::g1)
                blocks[b].bytes[static_cast<int>(tier)] += options_.layout.slab_bytes(g);
        }
    }
    const PrefixPlan cut =
        plan_prefix(blocks, options_.layout.block_tokens, prompt_tokens, options_.cost);
    if (cut.use_blocks >= found.usable) return found.usable;
    reason = MissReason::cheaper_to_recompute;
    return cut.use_blocks;
}

// The next longer prefix that could be taken if all were there; n when none within the limit is.
uint32_t Cache::next_end(uint32_t n, uint32_t limit) const {
    for (uint32_t next = n + 1; next <= limit; ++next)
        if (options_.layout.can_end(next)) return next;
    return n;
}

bool Cache::must_wait(const Lease& held, const Survey& found, uint32_t limit) const {
    if (clock_.monotonic_ns() >= held.wait_until_ns) return false;
    const uint32_t next = next_end(found.usable, limit);
    for (uint32_t b = found.usable; b < next; ++b) {
        const auto it = computing_.find(held.chain.blocks()[b]);
        if (it != computing_.end() && it->second != held.id) return true;
    }
    return false;
}

void Cache::start(Lease& held) {
    const bool waited = held.info.state == LeaseState::waiting;
    held.info = {};
    const uint32_t limit = (held.prompt_tokens - 1) / options_.layout.block_tokens;
    if (!options_.enabled) {
        held.info.miss = MissReason::cache_off;
        become_ready(held);
        return;
    }
    if (!held.reuse) return become_ready(held);
    Survey found = survey(held.chain, *held.keys, limit);
    if (must_wait(held, found, limit)) {
        if (!waited) ++stats_.shared_waits;
        held.info.state = LeaseState::waiting;
        return;
    }
    MissReason reason = MissReason::none;
    uint32_t use = held.attempts >= kAttemptsMax ? 0 : plan(found, held.prompt_tokens, reason);
    if (!hold_prefix(held, found, use)) {
        use = 0;
        reason = MissReason::no_space;
    }
    set_miss(held, found, use, limit);
    if (reason != MissReason::none) held.info.miss = reason;
    register_computing(held, use);
    held.info.cached_tokens = use * options_.layout.block_tokens;
    if (held.pending_loads == 0)
        become_ready(held);
    else
        held.info.state = LeaseState::loading;
}

// Pins what is in G1, joins what is loading and reserves slots for the rest. False (and nothing
// held) when G1 cannot take the rest now.
bool Cache::hold_prefix(Lease& held, const Survey& found, uint32_t use) {
    if (use == 0) return true;
    know_prefix(held, use);
    if (held.known.size() < use) return let_go(held), false;
    const uint32_t block_tokens = options_.layout.block_tokens;
    std::vector<std::vector<LoadItem>> per_tier(tiers_.size());
    for (uint32_t g = 0; g < held.tables.size(); ++g) {
        held.tables[g].slabs.assign(use, nullptr);
        held.tables[g].slots.assign(use, kNoArenaSlot);
        // In G1 already, or on the way: pinned before anything is evicted for the rest.
        const BlockRange needed = options_.layout.needed_blocks(g, use * block_tokens);
        for (uint32_t b = needed.first; b < needed.end; ++b) {
            const uint32_t slot = index_->slot(held.known[b], g, Tier::g1);
            if (slot != kNoSlot) hold_block(held, g, b, slot);
        }
    }
    for (uint32_t g = 0; g < held.tables.size(); ++g) {
        const BlockRange needed = options_.layout.needed_blocks(g, use * block_tokens);
        for (uint32_t b = needed.first; b < needed.end; ++b) {
            if (held.tables[g].slots[b] != kNoArenaSlot) continue;
            const BlockKey k = held.keys->key(g, held.chain.blocks()[b]);
            if (const auto it = loading_.find(k); it != loading_.end()) {
                LoadItem& item = loads_[it->second.first].items[it->second.second];
                hold_block(held, g, b, item.slot);
                item.waiters.push_back(held.id);
                ++held.pending_loads;
                join_load(held, it->second.first);
                continue;
            }
            const uint32_t slot = pool_->take(g);
            if (slot == kNoArenaSlot) {
                for (auto& items : per_tier)
                    for (LoadItem& item : items) {
                        pool_->unpin(item.group, item.slot);
                        index_->unpin(item.block);
                    }
                return let_go(held), false;
            }
            slot_states_[g][slot] = {};
            hold_block(held, g, b, slot);  // the lease's pin; take()'s own is the mover's
            index_->pin(held.known[b]);
            size_t lower = 0;
            while (source_of(tiers_[lower].tier) != found.sources[g][b]) ++lower;
            const TokenSpan tokens = held.chain.block(b);
            per_tier[lower].push_back({g,
                                       slot,
                                       b,
                                       k,
                                       held.chain.blocks()[b],
                                       held.chain.parent(b),
                                       held.known[b],
                                       {tokens.begin(), tokens.end()},
                                       {held.id}});
        }
    }
    note_use(held, found, use);
    begin_loads(held, std::move(per_tier));
    return true;
}

void Cache::hold_block(Lease& held, uint32_t group, uint32_t block, uint32_t slot) {
    pool_->pin(group, slot);
    held.tables[group].slots[block] = slot;
    held.tables[group].slabs[block] = pool_->data(group, slot).data();
}

// Makes the first `blocks` blocks of the chain known to the index, each with one pin of the
// lease's.
void Cache::know_prefix(Lease& held, uint32_t blocks) {
    const auto hashes = held.chain.blocks().first(blocks);
    std::vector<BlockIndex> before(blocks, kNoBlock);
    const uint32_t already = index_->find(hashes, before);
    for (uint32_t b = static_cast<uint32_t>(held.known.size()); b < already; ++b) {
        index_->pin(before[b]);
        held.known.push_back(before[b]);
    }
    if (already >= blocks) return;
    std::vector<BlockIndex> now(blocks, kNoBlock);
    const Status inserted = index_->insert(hashes, held.keys->number, /*pin_new=*/true, now);
    for (uint32_t b = static_cast<uint32_t>(held.known.size()); b < blocks && now[b] != kNoBlock;
         ++b)
        held.known.push_back(now[b]);
    if (!inserted.ok()) held.publishing = false;
}

// Drops everything the lease holds; pages it computed and nobody published become free.
void Cache::let_go(Lease& held) {
    // A load in flight goes on: it holds a pin of its own until the mover reports.
    if (held.pending_loads > 0)
        for (auto& [op_id, op] : loads_)
            for (LoadItem& item : op.items) std::erase(item.waiters, held.id);
    for (uint32_t g = 0; g < held.tables.size(); ++g) {
        for (uint32_t slot : held.tables[g].slots)
            if (slot != kNoArenaSlot) pool_->unpin(g, slot);
        held.tables[g] = {};
    }
    // Children first, so that a forgotten leaf lets its ancestors go too.
    for (auto it = held.known.rbegin(); it != held.known.rend(); ++it) index_->unpin(*it);
    held.known.clear();
    held.pending_loads = 0;
    held.landings.clear();
}

// A prompt that ends with a block, all of it in G1: the lease gets a copy of that last block to
// write its last token into, and computes one token instead of a whole block. Publishing it finds
// the original. With codes its exact numbers are gone, and it is computed.
void Cache::copy_last_block(Lease& held) {
    if (options_.layout.coded()) return;
    const uint32_t block_tokens = options_.layout.block_tokens;
    const uint32_t last = held.prompt_tokens / block_tokens - 1;
    if (held.prompt_tokens % block_tokens != 0 || last == 0 ||
        held.info.cached_tokens != last * block_tokens)
        return;
    for (const LeaseTable& table : held.tables)
        if (table.slots.size() != last) return;  // a step has begun to compute the block
    std::vector<BlockIndex> known(last + 1, kNoBlock);
    if (index_->find(held.chain.blocks().first(last + 1), known) <= last) return;
    for (uint32_t g = 0; g < held.tables.size(); ++g)
        if (index_->slot(known[last], g, Tier::g1) == kNoSlot) return;
    for (uint32_t g = 0; g < held.tables.size(); ++g) {
        const uint32_t from = index_->slot(known[last], g, Tier::g1);
        pool_->pin(g, from);  // not a victim for its own copy
        const uint32_t slot = pool_->take(g);
        if (slot != kNoArenaSlot) {
            slot_states_[g][slot] = {};
            // The header is the storer's, which may be sealing the original right now.
            std::memcpy(pool_->data(g, slot).data() + kSlabHeaderBytes,
                        pool_->data(g, from).data() + kSlabHeaderBytes,
                        options_.layout.payload_bytes(g));
            held.tables[g].slots.push_back(slot);
            held.tables[g].slabs.push_back(pool_->data(g, slot).data());
        }
        pool_->unpin(g, from);
        if (slot == kNoArenaSlot)
            return;  // grow() makes what is missing; the whole block is computed
    }
    held.info.cached_tokens += block_tokens - 1;
    held.info.tokens_by_tier[static_cast<int>(Tier::g1)] += block_tokens - 1;
}

void Cache::become_ready(Lease& held) {
    if (options_.enabled && held.reuse) copy_last_block(held);
    held.computed_tokens = held.info.cached_tokens;
    held.info.state = LeaseState::ready;
    held.landings.clear();
    recent_.add(held.chain.root(), held.ns(), held.chain.tokens().first(held.prompt_tokens),
                options_.layout.block_tokens);
    for (int t = 0; t < kTierCount; ++t) stats_.hit_tokens[t] += held.info.tokens_by_tier[t];
    ++stats_.misses[static_cast<int>(held.info.miss)];
}

// Counts where the prefix came from, and tells the policies that it was used.
void Cache::note_use(Lease& held, const Survey& found, uint32_t use) {
    for (uint32_t b = 0; b < use; ++b) {
        Tier slowest = Tier::g1;
        for (uint32_t g = 0; g < found.sources.size(); ++g)
            if (held.tables[g].slots[b] != kNoArenaSlot)
                slowest = std::max(slowest, tier_of(found.sources[g][b]));
        held.info.tokens_by_tier[static_cast<int>(slowest)] += options_.layout.block_tokens;
        for (Lower& lower : tiers_) lower.admission->record(held.chain.blocks()[b].value);
    }
    const int64_t now = clock_.monotonic_ns();
    for (uint32_t g = 0; g < held.tables.size(); ++g) {
        for (uint32_t b = 0; b < use; ++b) {
            const uint32_t slot = held.tables[g].slots[b];
            if (slot == kNoArenaSlot || !pool_->published(g, slot)) continue;
            observe(Metric::block_reuse_gap_seconds, Tier::g1, slot_states_[g][slot].used_ns, now);
            slot_states_[g][slot].used_ns = now;
            const PrefixHash& hash = held.chain.blocks()[b];
            owe(g, slot, wanted_tiers(g, slot, hash, held.keys->key(g, hash), false));
        }
    }
}

void Cache::register_computing(Lease& held, uint32_t from_block) {
    const auto full = held.prompt_tokens / options_.layout.block_tokens;
    for (uint32_t b = from_block; b < full; ++b)
        computing_.try_emplace(held.chain.blocks()[b], held.id);
    held.registered_blocks = full;
}

void Cache::unregister_computing(Lease& held) {
    for (uint32_t b = 0; b < held.registered_blocks; ++b) {
        const auto it = computing_.find(held.chain.blocks()[b]);
        if (it != computing_.end() && it->second == held.id) computing_.erase(it);
    }
    held.registered_blocks = 0;
}

}  // namespace quire
