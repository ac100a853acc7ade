// Demotion: what one tier gives up goes to the next one down that was not offered it before, or was
// and is still owed it.
//
// A slot that is evicted is reused at once, so what goes down is a copy in one of a bounded number
// of buffers; the storer writes it, and the buffer is free again. A block that finds no buffer is
// lost below, and counted as skipped: evicting never waits for a write.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "cache/cache.h"
#include "format/slab.h"

namespace quire {

Status Cache::open_demotion() {
    size_t slab_bytes = 0;
    for (size_t g = 0; g < options_.layout.groups.size(); ++g)
        slab_bytes = std::max(slab_bytes, options_.layout.slab_bytes(g));
    demotes_ = std::any_of(tiers_.begin(), tiers_.end(),
                           [](const Lower& lower) { return !lower.write_through; });
    if (!tiers_.empty()) {
        const size_t count = std::max<size_t>(options_.demotion_bytes_max / slab_bytes, 16);
        // Taken now, so that a burst of evictions, hours later, finds it there.
        auto pool = BufferPool::create(slab_bytes, count, true);
        if (!pool.ok()) return pool.error();
        copies_ = std::move(pool).value();
    }
    for (size_t i = 0; i < tiers_.size(); ++i) {
        tiers_[i].store->on_evicted([this, i](std::span<const std::byte> slab) {
            mailbox_.post({nullptr, nullptr, copy_departing(i, slab)});
            if (wake_) wake_();
        });
    }
    return {};
}

void Cache::close_demotion() {
    for (Lower& lower : tiers_) lower.store->on_evicted({});
}

bool Cache::holds(size_t lower, const BlockKey& key) const {
    uint8_t present = 0;
    tiers_[lower].store->contains({&key, 1}, {&present, 1});
    return present != 0;
}

// On a thread of the store's: reads nothing of the cache that changes after open_demotion().
std::unique_ptr<Cache::Departed> Cache::copy_departing(size_t lower,
                                                       std::span<const std::byte> slab) {
    const SlabHeader& header = slab_header(slab);
    auto departed = std::make_unique<Departed>();
    departed->lower = lower;
    departed->group = header.group;
    departed->key = header.key;
    departed->prefix = header.prefix;
    departed->bytes = slab.size();
    for (size_t i = lower + 1; i < tiers_.size() && demotes_; ++i) {
        if (holds(i, header.key)) break;
        if (tiers_[i].write_through) continue;
        if (auto buffer = copies_->try_take()) {
            std::memcpy(buffer->bytes().data(), slab.data(), slab.size());
            departed->copy = std::move(*buffer);
        }
        break;
    }
    return departed;
}

Cache::Below Cache::look_below(size_t from, const BlockKey& key, const PrefixHash& hash,
                               bool force) {
    Below below;
    for (size_t i = from; i < tiers_.size(); ++i) {
        const auto bit = static_cast<uint8_t>(1u << i);
        if (holds(i, key)) {
            below.held |= bit;
        } else if (below.held != 0 || below.wants != SIZE_MAX || tiers_[i].write_through) {
            continue;  // it comes from the tier that has it, or was offered when published
        } else if (force || tiers_[i].admission->admit(hash.value)) {
            below.wants = i;
        } else {
            below.refused |= bit;
            ++stats_.store_skipped[static_cast<int>(tiers_[i].tier)];
        }
    }
    return below;
}

// REQUIRES: item.copy holds the slab's `bytes` bytes.
void Cache::demote(StoreItem item, uint8_t tiers, size_t bytes) {
    item.slot = kNoArenaSlot;
    item.slab = item.copy.bytes().first(bytes);
    item.tiers = tiers;
    stats_.pending_store_bytes += bytes;
    ++stats_.pending_stores;
    copies_put_off_ += bytes;
    put_off_.push_back(std::move(item));
    if (copies_put_off_ > options_.demotion_bytes_max / 2) begin_copies();
}

void Cache::begin_copies() {
    copies_put_off_ = 0;
    submit_stores(std::exchange(put_off_, {}));
}

// Bits of the lower tiers that hold the block, or will.
uint8_t Cache::demote_from_g1(uint32_t group, uint32_t slot, const PrefixHash& hash,
                              SlotState& state) {
    const std::span<const std::byte> slab = pool_->data(group, slot);
    const BlockKey key = slab_header(slab).key;
    uint8_t wants = take_due(group, slot);
    uint8_t held = 0;
    if (evict_reason_ == MissReason::evicted && demotes_) {
        const Below below = look_below(0, key, hash, false);
        state.refused |= below.refused;
        held = below.held;
        if (below.wants != SIZE_MAX) wants |= static_cast<uint8_t>(1u << below.wants);
    } else {
        for (size_t i = 0; i < tiers_.size(); ++i)
            if ((state.stored >> i & 1) && holds(i, key)) held |= static_cast<uint8_t>(1u << i);
    }
    if (wants == 0) return held;
    auto copy = copies_->try_take();
    if (!copy) {
        count_busy(wants);
        return held;
    }
    std::memcpy(copy->bytes().data(), slab.data(), slab.size());
    StoreItem item;
    item.group = group;
    item.key = key;
    item.sealed = state.sealed;
    item.prefix = hash;
    item.copy = std::move(*copy);
    demote(std::move(item), wants, slab.size());
    return static_cast<uint8_t>(held | wants);
}

void Cache::on_departed(Departed& departed) {
    if (!departed.evicted) --reading_down_;
    const int64_t now = clock_.monotonic_ns();
    const Below below =
        look_below(departed.lower + 1, departed.key, departed.prefix, !departed.evicted);
    const Tier from = tiers_[departed.lower].tier;
    const auto wants = static_cast<uint8_t>(below.wants == SIZE_MAX ? 0 : 1u << below.wants);
    if (wants != 0 && departed.copy) {
        StoreItem item;
        item.group = departed.group;
        item.key = departed.key;
        item.sealed = true;
        item.from = from;
        item.prefix = departed.prefix;
        item.copy = std::move(departed.copy);
        demote(std::move(item), wants, departed.bytes);
    } else {
        count_busy(wants);
    }
    if (!departed.evicted) return;
    // If G1 holds the block still, it will write another ghost.
    Ghost ghost{MissReason::evicted, from, now};
    if (below.refused != 0) ghost.reason = MissReason::not_admitted;
    for (size_t i = departed.lower + 1; i < tiers_.size(); ++i)
        if ((below.held >> i & 1) || below.wants == i)
            ghost = {MissReason::evicted, tiers_[i].tier, now, true};
    ghosts_.note(departed.prefix, ghost);
}

// Reads what a lower tier holds and the next one down was never offered, as much as there are
// buffers, and hands it down. True when there is nothing (left) of that kind; call again otherwise.
bool Cache::copy_down() {
    if (!demotes_) return true;
    if (reading_down_ > 0 || stats_.pending_stores > 0) return false;
    for (size_t lower = 0; lower + 1 < tiers_.size(); ++lower) {
        if (tiers_[lower + 1].write_through) continue;
        auto entries = tiers_[lower].store->list();
        if (!entries.ok()) continue;
        auto batch = std::make_shared<std::vector<std::unique_ptr<Departed>>>();
        std::vector<TierGet> gets;
        for (const TierEntry& entry : *entries) {
            if (holds(lower + 1, entry.key) || entry.bytes > copies_->buffer_bytes() ||
                not_stored_.contains(entry.key))
                continue;
            auto buffer = copies_->try_take();
            if (!buffer) break;
            auto departed = std::make_unique<Departed>();
            departed->lower = lower;
            departed->key = entry.key;
            departed->bytes = entry.bytes;
            departed->copy = std::move(*buffer);
            departed->evicted = false;
            gets.push_back({.key = entry.key,
                            .into = departed->copy.bytes().first(entry.bytes),
                            .as_stored = true});
            batch->push_back(std::move(departed));
        }
        if (batch->empty()) continue;
        const size_t count = batch->size();
        const auto done = [this, batch](std::span<const Status> results) {
            for (size_t i = 0; i < batch->size(); ++i) {
                Departed& read = *(*batch)[i];
                if (results[i].ok()) {
                    const SlabHeader& header =
                        slab_header(std::span<const std::byte>(read.copy.bytes()));
                    read.group = header.group;
                    read.prefix = header.prefix;
                } else {
                    read.copy = {};
                }
                mailbox_.post({nullptr, nullptr, std::move((*batch)[i])});
            }
            if (wake_) wake_();
        };
        if (!tiers_[lower].store->get(std::move(gets), done, {}).ok()) return false;
        reading_down_ += count;
        return false;
    }
    return true;
}

}  // namespace quire
