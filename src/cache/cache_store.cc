// From computed pages to published blocks, and their copies in lower tiers.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "cache/cache.h"
#include "format/slab.h"

namespace quire {
namespace {

// Slabs a store batch: large enough for >= 1 MiB I/O, small enough to unpin soon.
constexpr size_t kStoreBatchBlocks = 64;

}  // namespace

void Cache::commit(LeaseId id, uint32_t computed_tokens) {
    Lease& held = lease(id);
    QUIRE_CHECK(computed_tokens >= held.computed_tokens, "computed tokens went back");
    QUIRE_CHECK(computed_tokens <= held.chain.tokens().size(), "computed tokens nobody appended");
    held.computed_tokens = computed_tokens;
    const auto full = computed_tokens / options_.layout.block_tokens;
    if (options_.enabled && held.publishing && full > held.known.size()) {
        const auto from = static_cast<uint32_t>(held.known.size());
        know_prefix(held, full);
        for (uint32_t b = from; b < held.known.size(); ++b) publish_block(held, b);
        retry_waiting_ = true;
    }
    trim(held);
}

void Cache::publish_block(Lease& held, uint32_t block) {
    const PrefixHash& hash = held.chain.blocks()[block];
    const auto prompt_full = held.prompt_tokens / options_.layout.block_tokens;
    const double rebuild_ns =
        options_.layout.block_tokens * (options_.cost.prefill_ns_per_token +
                                        options_.cost.prefill_ns_per_token_per_key *
                                            (double{1} * block * options_.layout.block_tokens));
    for (Lower& lower : tiers_) lower.admission->record(hash.value);
    for (uint32_t g = 0; g < held.tables.size(); ++g) {
        LeaseTable& table = held.tables[g];
        const uint32_t slot = table.slots[block];
        if (slot == kNoArenaSlot) continue;  // below the window already
        if (!options_.layout.kept_blocks(g, block + 1).has(block)) continue;  // the lease's own
        const uint32_t existing = index_->slot(held.known[block], g, Tier::g1);
        if (existing != kNoSlot) {
            // Somebody published the same block first. The bytes are the same by construction, so
            // use the shared copy and give ours back.
            ++stats_.deduplicated_blocks;
            hold_block(held, g, block, existing);
            pool_->unpin(g, slot);
            continue;
        }
        write_header(held, g, block, pool_->data(g, slot));
        const int64_t now = clock_.monotonic_ns();
        slot_states_[g][slot] = {.published_ns = now, .used_ns = now};
        pool_->publish(
            g, slot, held.known[block],
            {hash.value, block, block + 1 == prompt_full, static_cast<uint64_t>(rebuild_ns)});
        ++stats_.published_blocks;
        const BlockKey k = held.keys->key(g, hash);
        owe(g, slot, wanted_tiers(g, slot, hash, k, false));
    }
    const auto it = computing_.find(hash);
    if (it != computing_.end() && it->second == held.id) computing_.erase(it);
}

void Cache::write_header(const Lease& held, uint32_t group, uint32_t block,
                         std::span<std::byte> slab) {
    const KvGroup& shape = options_.layout.groups[group];
    SlabHeader header;
    header.group = static_cast<uint16_t>(group);
    header.payload_bytes = static_cast<uint32_t>(options_.layout.payload_bytes(group));
    header.key = held.keys->key(group, held.chain.blocks()[block]);
    if (block > 0) header.parent_key = held.keys->key(group, held.chain.blocks()[block - 1]);
    header.prefix = held.chain.blocks()[block];
    header.parent_prefix = held.chain.parent(block);
    header.model = options_.model;
    header.layout_digest = options_.layout.digest();
    header.codec = shape.pages.codec;
    header.codec_version = shape.pages.version;
    header.page = page_description(options_.layout, group);
    header.layer_count = static_cast<uint16_t>(shape.layers.size());
    header.layer_bytes = static_cast<uint32_t>(options_.layout.layer_bytes(group));
    header.token_count = options_.layout.block_tokens;
    header.first_position = block * options_.layout.block_tokens;
    header.element = static_cast<uint8_t>(options_.layout.element);
    header.kv_kind = static_cast<uint8_t>(shape.kind);
    header.tenant_bytes = static_cast<uint16_t>(std::min(held.tenant.size(), kTenantBytesMax));
    std::memcpy(header.tenant.data(), held.tenant.data(), header.tenant_bytes);
    const TokenSpan tokens = held.chain.block(block);
    std::copy(tokens.begin(), tokens.end(), header.tokens.begin());
    std::memcpy(slab.data(), &header, sizeof header);
    // The padding after the payload travels too: never let old memory out.
    const size_t end = kSlabHeaderBytes + header.payload_bytes;
    std::memset(slab.data() + end, 0, slab.size() - end);
}

// Bit i: the i-th lower tier should get a copy of this block, and nobody saw to it yet.
uint8_t Cache::wanted_tiers(uint32_t group, uint32_t slot, const PrefixHash& hash,
                            const BlockKey& key, bool force) {
    SlotState& state = slot_states_[group][slot];
    if (state.storing) return 0;
    uint8_t wanted = 0;
    for (size_t i = 0; i < tiers_.size(); ++i) {
        if ((state.stored | state.due) >> i & 1) continue;
        if (!force && !tiers_[i].write_through) continue;
        uint8_t present = 0;
        tiers_[i].store->contains({&key, 1}, {&present, 1});
        if (present) {
            state.stored |= static_cast<uint8_t>(1u << i);
            continue;
        }
        if (force || tiers_[i].admission->admit(hash.value)) {
            wanted |= static_cast<uint8_t>(1u << i);
        } else {
            state.refused |= static_cast<uint8_t>(1u << i);
            ++stats_.store_skipped[static_cast<int>(tiers_[i].tier)];
        }
    }
    return wanted;
}

void Cache::submit_stores(std::vector<StoreItem> items) {
    // By group, then as offered: neighbours in a prompt become neighbours on disk.
    std::stable_sort(items.begin(), items.end(),
                     [](const StoreItem& a, const StoreItem& b) { return a.group < b.group; });
    for (size_t from = 0; from < items.size(); from += kStoreBatchBlocks) {
        const size_t end = std::min(from + kStoreBatchBlocks, items.size());
        StoreBatch batch;
        batch.submitted_ns = clock_.monotonic_ns();
        batch.items.assign(std::make_move_iterator(items.begin() + static_cast<ptrdiff_t>(from)),
                           std::make_move_iterator(items.begin() + static_cast<ptrdiff_t>(end)));
        storer_->submit(std::move(batch));
    }
}

void Cache::on_stored(StoreDone& done) {
    for (size_t t = 0; t < tiers_.size(); ++t)
        observe(Metric::store_seconds, tiers_[t].tier, done.batch.submitted_ns,
                clock_.monotonic_ns());
    for (size_t i = 0; i < done.batch.items.size(); ++i) {
        const StoreItem& item = done.batch.items[i];
        uint8_t stored = 0;
        for (size_t t = 0; t < tiers_.size(); ++t) {
            if (!(item.tiers >> t & 1)) continue;
            const auto tier = static_cast<size_t>(tiers_[t].tier);
            const Status& result = done.results[t][i];
            if (result.ok()) {
                stored |= static_cast<uint8_t>(1u << t);
                ++stats_.stored_blocks[tier];
                stats_.stored_bytes[tier] += item.slab.size();
            } else if (result.code() == Code::busy) {
                ++stats_.store_busy[tier];
            } else {
                if (pass_ != 0) not_stored_.insert(item.key);
                ++(result.code() == Code::full ? stats_.store_full : stats_.store_failures)[tier];
            }
        }
        stats_.pending_store_bytes -= item.slab.size();
        --stats_.pending_stores;
        on_stored_slot(item, stored);
    }
}

void Cache::on_stored_slot(const StoreItem& item, uint8_t stored) {
    if (item.slot == kNoArenaSlot) {  // a copy of what left a tier
        if (stored == 0)
            ghosts_.note(item.prefix, {MissReason::evicted, item.from, clock_.monotonic_ns()});
        return;
    }
    SlotState& state = slot_states_[item.group][item.slot];
    held_store_bytes_ -= item.slab.size();
    state.storing = false;
    state.sealed = true;
    state.stored |= stored;
    pool_->unpin(item.group, item.slot);
}

// Only owed: pins would keep the pages from whoever the lease was preempted for.
void Cache::spill(LeaseId id) {
    Lease& held = lease(id);
    if (tiers_.empty()) return;
    for (uint32_t g = 0; g < held.tables.size(); ++g) {
        for (uint32_t b = 0; b < held.known.size() && b < held.tables[g].slots.size(); ++b) {
            const uint32_t slot = held.tables[g].slots[b];
            if (slot == kNoArenaSlot || !pool_->published(g, slot)) continue;
            const PrefixHash& hash = held.chain.blocks()[b];
            owe(g, slot, wanted_tiers(g, slot, hash, held.keys->key(g, hash), true) & 1);
        }
    }
}

size_t Cache::end_pass() {
    pass_ = 0;
    return std::exchange(not_stored_, {}).size();
}

bool Cache::store_all(uint64_t pass) {
    if (std::exchange(pass_, pass) != pass) not_stored_.clear();
    for (uint32_t g = 0; g < slot_states_.size(); ++g) {
        for (uint32_t slot = 0; slot < slot_states_[g].size(); ++slot) {
            if (!pool_->published(g, slot)) continue;
            const SlabHeader& header =
                slab_header(std::span<const std::byte>(pool_->data(g, slot)));
            if (not_stored_.contains(header.key)) continue;
            owe(g, slot, wanted_tiers(g, slot, header.prefix, header.key, true));
        }
    }
    begin_stores(store_bytes_max());
    const bool all_down = copy_down();
    return all_down && due_.size(0) == 0 && stats_.pending_stores == 0;
}

// Whole blocks that the next query does not read are let go: those that its window has passed, and
// exact pages of what is read as codes from now on.
void Cache::trim(Lease& held) {
    const uint32_t open = options_.layout.open_block(held.computed_tokens);
    for (uint32_t g = 0; g < held.tables.size(); ++g) {
        const BlockRange needed = options_.layout.needed_blocks(g, held.computed_tokens);
        let_go_blocks(held, g, {0, std::min(needed.first, needed.end)});
        if (options_.layout.groups[g].keep == KvKeep::sinks)
            let_go_blocks(held, g, {needed.end, open});
    }
}

// What is held of them lies at their end: what lies before was let go earlier.
void Cache::let_go_blocks(Lease& held, uint32_t group, BlockRange blocks) {
    LeaseTable& table = held.tables[group];
    const auto end = std::min<size_t>(blocks.end, table.slots.size());
    for (size_t b = end; b-- > blocks.first && table.slots[b] != kNoArenaSlot;) {
        pool_->unpin(group, table.slots[b]);
        table.slots[b] = kNoArenaSlot;
        table.slabs[b] = nullptr;
    }
}

}  // namespace quire
