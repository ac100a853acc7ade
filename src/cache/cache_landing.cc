// Beginning a step before its pages have landed: layer by layer, each verified before it is seen.
#include <algorithm>
#include <chrono>
#include <limits>

#include "base/check.h"
#include "cache/cache.h"

namespace quire {
namespace {

// Real time, whatever clock the cache was given: it bounds waits of threads.
int64_t now_ns() {
    return system_clock().monotonic_ns();
}

}  // namespace

LoadLeft Cache::load_left(LeaseId id) const {
    const Lease& held = lease(id);
    LoadLeft left;
    if (held.info.state != LeaseState::loading) return left;
    constexpr LoadLeft kFailed{std::numeric_limits<double>::infinity(), false};
    if (held.load_failed) return kFailed;
    struct Sum {
        double bytes = 0, landed = 0;
        int64_t started_ns = std::numeric_limits<int64_t>::max();
    } sums[kTierCount];
    bool by_layers = false;
    for (const LandingRef& landing : held.landings) {
        const auto it = loads_.find(landing.op);
        if (it == loads_.end()) continue;
        if (landing.progress->failed()) return kFailed;
        const Lower& lower = tiers_[it->second.lower];
        const TierInfo info = lower.store->info();
        by_layers |= it->second.bytes > info.at_once_bytes;
        left.copying |= info.caps.copies;
        Sum& sum = sums[static_cast<int>(lower.tier)];
        const auto bytes = static_cast<double>(it->second.bytes);
        sum.bytes += bytes;
        sum.landed += bytes * landing.progress->share();
        sum.started_ns = std::min(sum.started_ns, it->second.started_ns);
    }
    for (int t = 0; t < kTierCount; ++t) {
        const Sum& sum = sums[t];
        if (sum.bytes == 0) continue;
        const auto elapsed_ns = static_cast<double>(clock_.monotonic_ns() - sum.started_ns);
        const double whole_ns = options_.cost.load_latency_ns[t] + sum.bytes * load_ns_per_byte_[t];
        double tier_ns = whole_ns - elapsed_ns;
        if (sum.landed > 0)
            tier_ns = elapsed_ns * (sum.bytes - sum.landed) / sum.landed;
        else if (tier_ns < 0)
            tier_ns = elapsed_ns;  // what is late already may take as long again
        left.ns = std::max(left.ns, tier_ns);
    }
    left.at_once = !by_layers;
    return left;
}

Status Cache::wait_layer(LeaseId id, uint32_t layer, int64_t timeout_ns) {
    const int64_t end_ns = now_ns() + timeout_ns;
    const Lease& held = lease(id);
    // A load that has reported already is known here alone.
    if (held.load_failed) return make_error(Code::corrupt, "a load failed");
    for (const LandingRef& landing : held.landings) {
        const std::vector<uint32_t>& upto = layers_upto_[landing.group];
        if (layer >= upto.size() || upto[layer] == 0) continue;
        switch (landing.progress->wait(upto[layer], std::max<int64_t>(0, end_ns - now_ns()))) {
            case Landing::timeout:
                return make_error(Code::timeout, "a layer has not landed in time");
            case Landing::failed:
                return make_error(Code::corrupt, "a load failed under way");
            case Landing::landed:
                break;
        }
        if (!match_landing(landing)) return make_error(Code::corrupt, "another block landed");
    }
    return {};
}

// Bytes are verified before they count as landed; here they are compared with what was asked for.
bool Cache::match_landing(const LandingRef& landing) {
    const auto it = loads_.find(landing.op);
    if (it == loads_.end()) return true;  // finished, and its blocks were compared then
    LoadOp& op = it->second;
    if (!op.matched)
        op.matched =
            std::ranges::all_of(op.items, [this](const LoadItem& i) { return match(i).ok(); });
    return op.matched;
}

void Cache::handle_messages() {
    for (Message& message : mailbox_.drain()) {
        if (message.loaded) on_loaded(*message.loaded);
        if (message.stored) on_stored(*message.stored);
        if (message.departed) on_departed(*message.departed);
    }
}

bool Cache::settle(LeaseId id, int64_t timeout_ns) {
    const Lease& held = lease(id);
    const int attempts = held.attempts;
    const int64_t end_ns = now_ns() + timeout_ns;
    for (;;) {
        handle_messages();
        if (held.attempts != attempts) return false;
        if (held.info.state == LeaseState::ready) return true;
        const int64_t left_ns = end_ns - now_ns();
        if (held.info.state != LeaseState::loading || left_ns <= 0) return false;
        mailbox_.wait(left_ns);
    }
}

}  // namespace quire
