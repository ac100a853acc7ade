// Blocking calls on a TierStore, for tests. Header only.
#pragma once

#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "tier/testing/test_slab.h"
#include "tier/tier.h"

namespace quire::testing {

inline constexpr int64_t kTestTimeoutNs = 60'000'000'000;

// One batch, waited for; if the store is busy, every result is that.
class Pending {
 public:
    TierDone done() {
        auto promise = promise_;
        return [promise](std::span<const Status> results) {
            promise->set_value(std::vector<Status>(results.begin(), results.end()));
        };
    }
    bool ready() const {
        return future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    }
    std::vector<Status> wait() {
        QUIRE_CHECK(future_.wait_for(std::chrono::seconds(60)) == std::future_status::ready,
                    "a store did not call back within a minute");
        return future_.get();
    }

 private:
    std::shared_ptr<std::promise<std::vector<Status>>> promise_ =
        std::make_shared<std::promise<std::vector<Status>>>();
    std::future<std::vector<Status>> future_ = promise_->get_future();
};

inline std::vector<Status> put_wait(TierStore& store, std::vector<TierPut> batch) {
    size_t count = batch.size();
    Pending pending;
    Status accepted = store.put(std::move(batch), pending.done());
    if (!accepted.ok()) return std::vector<Status>(count, accepted);
    return pending.wait();
}

inline std::vector<Status> get_wait(TierStore& store, std::vector<TierGet> batch) {
    size_t count = batch.size();
    Pending pending;
    Status accepted = store.get(std::move(batch), pending.done(), {});
    if (!accepted.ok()) return std::vector<Status>(count, accepted);
    return pending.wait();
}

inline TierPut put_of(const AlignedBytes& slab, uint32_t value = 1) {
    return {slab_header(slab.span()).key, slab.span(), value};
}

inline Status put_one(TierStore& store, const AlignedBytes& slab, uint32_t value = 1) {
    return put_wait(store, {put_of(slab, value)})[0];
}

inline Status get_one(TierStore& store, const BlockKey& key, AlignedBytes& into) {
    return get_wait(store, {{key, into.span()}})[0];
}

inline bool holds(const TierStore& store, const BlockKey& key) {
    uint8_t present = 0;
    store.contains(std::span(&key, 1), std::span(&present, 1));
    return present != 0;
}

inline bool same_bytes(const AlignedBytes& a, const AlignedBytes& b) {
    return a.size() == b.size() && std::memcmp(a.span().data(), b.span().data(), a.size()) == 0;
}

// True when the slab reads back ok, byte for byte.
inline bool reads_back(TierStore& store, const AlignedBytes& slab) {
    AlignedBytes into(slab.size());
    return get_one(store, slab_header(slab.span()).key, into).ok() && same_bytes(slab, into);
}

}  // namespace quire::testing
