// Reading blocks of lower tiers into G1: every block verified, every failure a miss.
#include <algorithm>

#include "base/check.h"
#include "cache/cache.h"
#include "format/slab.h"

namespace quire {
namespace {

// Blocks a batch; bounds what one slow batch holds back.
constexpr size_t kLoadBatchBlocks = 1024;

}  // namespace

void Cache::begin_loads(Lease& held, std::vector<std::vector<LoadItem>> per_tier) {
    for (size_t lower = 0; lower < per_tier.size(); ++lower) {
        auto& items = per_tier[lower];
        for (size_t from = 0; from < items.size(); from += kLoadBatchBlocks) {
            const uint64_t id = next_op_++;
            LoadOp& op = loads_[id];
            op.lower = lower;
            op.started_ns = clock_.monotonic_ns();
            const size_t end = std::min(from + kLoadBatchBlocks, items.size());
            std::vector<TierGet> gets;
            for (size_t i = from; i < end; ++i) {
                gets.push_back({items[i].key, pool_->data(items[i].group, items[i].slot)});
                loading_[items[i].key] = {id, op.items.size()};
                op.items.push_back(std::move(items[i]));
                ++held.pending_loads;
            }
            const Status accepted = tiers_[lower].store->get(
                std::move(gets), [this, id](std::span<const Status> results) {
                    auto done = std::make_unique<LoadDone>();
                    done->op = id;
                    done->results.assign(results.begin(), results.end());
                    done->at_ns = clock_.monotonic_ns();
                    mailbox_.post({std::move(done), nullptr, nullptr});
                    if (wake_) wake_();
                });
            if (accepted.ok()) continue;
            auto refused = std::make_unique<LoadDone>();
            refused->op = id;
            refused->results.assign(op.items.size(), accepted);
            refused->at_ns = clock_.monotonic_ns();
            mailbox_.post({std::move(refused), nullptr, nullptr});
        }
    }
}

void Cache::on_loaded(LoadDone& done) {
    const auto it = loads_.find(done.op);
    QUIRE_CHECK(it != loads_.end() && it->second.items.size() == done.results.size(),
                "a tier reported a load twice or for the wrong batch");
    LoadOp op = std::move(it->second);
    loads_.erase(it);
    const auto tier = static_cast<size_t>(tiers_[op.lower].tier);
    stats_.load_ns[tier] += static_cast<uint64_t>(done.at_ns - op.started_ns);
    observe(Metric::load_seconds, tiers_[op.lower].tier, op.started_ns, done.at_ns);
    for (LoadItem& item : op.items) loading_.erase(item.key);
    for (size_t i = 0; i < op.items.size(); ++i)
        finish_item(op, op.items[i], done.results[i], done.at_ns);
    retry_waiting_ = true;
}

void Cache::finish_item(LoadOp& op, LoadItem& item, const Status& read, int64_t at_ns) {
    const Tier tier = tiers_[op.lower].tier;
    const auto t = static_cast<size_t>(tier);
    const std::span<std::byte> slab = pool_->data(item.group, item.slot);
    Status sound = read;
    if (sound.ok()) {
        SlabExpectation expected{item.key,
                                 item.hash,
                                 item.parent,
                                 options_.model,
                                 options_.layout.digest(),
                                 kCodecRaw16,
                                 static_cast<uint16_t>(item.group),
                                 item.tokens};
        sound = match_slab(slab, expected);
    }
    if (sound.ok()) {
        ++stats_.loaded_blocks[t];
        stats_.loaded_bytes[t] += slab.size();
        // If another lease computed and published the same block meanwhile, this copy stays
        // private.
        if (index_->slot(item.block, item.group, Tier::g1) == kNoSlot) {
            pool_->publish(item.group, item.slot, item.block,
                           {item.hash.value, item.position, false, 0});
            SlotState& state = slot_states_[item.group][item.slot];
            state = {at_ns, at_ns, false, true, static_cast<uint8_t>(1u << op.lower)};
        }
    } else {
        ++stats_.load_failures[t];
        const MissReason reason = sound.code() == Code::corrupt ? MissReason::corrupt
                                  : sound.code() == Code::miss  ? MissReason::evicted
                                                                : MissReason::io_error;
        ghosts_.note(item.hash, {reason, tier, at_ns});
        if (sound.code() == Code::corrupt) tiers_[op.lower].store->erase({&item.key, 1});
    }
    for (LeaseId id : item.waiters) {
        Lease& held = lease(id);
        held.load_failed |= !sound.ok();
        held.info.bytes_by_tier[t] += slab.size();
        held.info.load_ns_by_tier[t] =
            std::max(held.info.load_ns_by_tier[t], at_ns - op.started_ns);
        if (--held.pending_loads > 0) continue;
        if (!held.load_failed) {
            become_ready(held);
            continue;
        }
        // Plan anew without what failed; nothing of the old plan is kept.
        unregister_computing(held);
        let_go(held);
        held.load_failed = false;
        ++held.attempts;
        start(held);
    }
    pool_->unpin(item.group, item.slot);  // the mover's pins
    index_->unpin(item.block);
}

}  // namespace quire
