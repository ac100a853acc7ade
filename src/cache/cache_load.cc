// Reading blocks of lower tiers into G1: every block verified, every failure a miss. What a step
// may do meanwhile is in cache_landing.cc.
#include <algorithm>

#include "base/check.h"
#include "cache/cache.h"
#include "format/slab.h"

namespace quire {
namespace {

// Blocks a batch; bounds what one slow batch holds back.
constexpr size_t kLoadBatchBlocks = 1024;
constexpr uint64_t kLearnBytesMin = 1 << 20;  // smaller loads say little about a tier's speed
constexpr double kLearnRate = 0.3;

// Why a load failed, of what a tier said.
MissReason reason_of(Code code) {
    switch (code) {
        case Code::corrupt:
            return MissReason::corrupt;
        case Code::miss:
            return MissReason::evicted;
        case Code::invalid:  // of another size: packed
        case Code::unsupported:
            return MissReason::other_packing;
        default:
            return MissReason::io_error;
    }
}

// What a tier holds in a form that cannot be read stands in the way of what could be.
bool never_readable(Code code) {
    return code == Code::corrupt || code == Code::invalid || code == Code::unsupported;
}

}  // namespace

void Cache::begin_loads(Lease& held, std::vector<std::vector<LoadItem>> per_tier) {
    // The group whose layers come first in the model is read first.
    const auto first_layer = [this](const LoadItem& item) {
        return options_.layout.groups[item.group].layers.front();
    };
    for (size_t lower = 0; lower < per_tier.size(); ++lower) {
        auto& items = per_tier[lower];
        std::stable_sort(items.begin(), items.end(), [&](const LoadItem& a, const LoadItem& b) {
            return first_layer(a) < first_layer(b);
        });
        for (size_t from = 0, end = 0; from < items.size(); from = end) {
            while (end < items.size() && end - from < kLoadBatchBlocks &&
                   items[end].group == items[from].group)
                ++end;
            begin_load(held, lower, std::span(items).subspan(from, end - from));
        }
    }
}

void Cache::join_load(Lease& held, uint64_t op) {
    for (const LandingRef& landing : held.landings)
        if (landing.op == op) return;
    const LoadOp& load = loads_.at(op);
    held.landings.push_back({op, load.items.front().group, load.progress});
}

void Cache::begin_load(Lease& held, size_t lower, std::span<LoadItem> items) {
    const uint32_t group = items.front().group;
    const auto layers = static_cast<uint32_t>(options_.layout.groups[group].layers.size());
    const uint64_t id = next_op_++;
    LoadOp& op = loads_[id];
    op.lower = lower;
    op.started_ns = clock_.monotonic_ns();
    op.progress = std::make_shared<LoadProgress>(layers);
    std::vector<TierGet> gets;
    for (LoadItem& item : items) {
        gets.push_back({item.key, pool_->data(group, item.slot)});
        op.bytes += gets.back().into.size();
        loading_[item.key] = {id, op.items.size()};
        op.items.push_back(std::move(item));
        ++held.pending_loads;
    }
    join_load(held, id);
    const auto report = [this, id, progress = op.progress](std::span<const Status> results) {
        progress->finish(std::ranges::all_of(results, [](const Status& s) { return s.ok(); }));
        auto done = std::make_unique<LoadDone>();
        done->op = id;
        done->results.assign(results.begin(), results.end());
        done->at_ns = clock_.monotonic_ns();
        mailbox_.post({std::move(done), nullptr, nullptr});
    };
    TierLanding landing;
    landing.layers = layers;
    landing.layer_bytes = static_cast<uint32_t>(options_.layout.layer_bytes(group));
    landing.landed = [this, progress = op.progress](uint32_t n) {
        progress->landed(n);
        if (wake_) wake_();
    };
    landing.failed = [progress = op.progress] { progress->fail(); };
    const Status accepted = tiers_[lower].store->get(
        std::move(gets),
        [this, report](std::span<const Status> results) {
            report(results);
            if (wake_) wake_();
        },
        std::move(landing));
    if (!accepted.ok()) report(std::vector<Status>(op.items.size(), accepted));
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
    learn_load(op, done.at_ns - op.started_ns);
    for (LoadItem& item : op.items) loading_.erase(item.key);
    for (size_t i = 0; i < op.items.size(); ++i)
        finish_item(op, op.items[i], done.results[i], done.at_ns);
    retry_waiting_ = true;
}

// Keeps the idea of how fast a tier is near what its loads really took.
void Cache::learn_load(const LoadOp& op, int64_t elapsed_ns) {
    if (op.bytes < kLearnBytesMin) return;
    double& seen = load_ns_per_byte_[static_cast<int>(tiers_[op.lower].tier)];
    seen += kLearnRate * (static_cast<double>(elapsed_ns) / static_cast<double>(op.bytes) - seen);
}

// Whether the slot's header is of exactly the block that was asked for.
Status Cache::match(const LoadItem& item) const {
    SlabExpectation expected{item.key,
                             item.hash,
                             item.parent,
                             options_.model,
                             options_.layout.digest(),
                             options_.layout.groups[item.group].pages.codec,
                             options_.layout.groups[item.group].pages.version,
                             static_cast<uint16_t>(item.group),
                             page_description(options_.layout, item.group),
                             item.tokens};
    return match_slab(pool_->data(item.group, item.slot), expected);
}

void Cache::finish_item(LoadOp& op, LoadItem& item, const Status& read, int64_t at_ns) {
    const Tier tier = tiers_[op.lower].tier;
    const auto t = static_cast<size_t>(tier);
    const std::span<std::byte> slab = pool_->data(item.group, item.slot);
    const Status sound = read.ok() ? match(item) : read;
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
        ghosts_.note(item.hash, {reason_of(sound.code()), tier, at_ns});
        if (never_readable(sound.code())) tiers_[op.lower].store->erase({&item.key, 1});
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
