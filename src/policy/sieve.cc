// SIEVE: one queue in order of arrival; a hand walks from the oldest to the newest, spares what was
// used since it last came by, and takes the first that was not.
#include <vector>

#include "base/check.h"
#include "policy/id_list.h"
#include "policy/policies.h"

namespace quire {
namespace {

class Sieve final : public EvictionPolicy {
 public:
    explicit Sieve(uint32_t capacity) : lists_(capacity, 1), state_(capacity, kAbsent) {}

    void insert(uint32_t id, const EvictBlock&) override {
        QUIRE_CHECK(id < state_.size() && state_[id] == kAbsent, "insert of a bad or known id");
        state_[id] = kFresh;
        lists_.push_newest(0, id);
    }

    void touch(uint32_t id) override {
        QUIRE_CHECK(id < state_.size() && state_[id] != kAbsent, "touch of an absent id");
        if (state_[id] != kFresh) {
            state_[id] = kUsed;
            return;
        }
        // The end of its first request: children now queue before parents.
        remove(id);
        lists_.push_newest(0, id);
        state_[id] = kUnused;
    }

    void erase(uint32_t id) override {
        QUIRE_CHECK(id < state_.size() && state_[id] != kAbsent, "erase of an absent id");
        remove(id);
        state_[id] = kAbsent;
    }

    size_t take_victims(std::span<uint32_t> out, Evictable evictable) override {
        return scan_until_dry(out, [&](std::span<uint32_t> rest) { return scan(rest, evictable); });
    }

    size_t size() const override { return lists_.size(0); }

 private:
    enum State : uint8_t { kAbsent, kFresh, kUnused, kUsed };

    void remove(uint32_t id) {
        if (hand_ == id) hand_ = lists_.newer(id);
        lists_.remove(0, id);
    }

    size_t scan(std::span<uint32_t> out, Evictable evictable) {
        size_t taken = 0;
        // Two rounds see every block once without its mark.
        for (uint64_t steps = 2 * uint64_t{lists_.size(0)}; steps > 0 && taken < out.size();
             --steps) {
            if (hand_ == kNoId) hand_ = lists_.oldest(0);
            const uint32_t id = hand_;
            hand_ = lists_.newer(id);
            if (state_[id] == kUsed) {
                state_[id] = kUnused;
            } else if (evictable(id)) {
                erase(id);
                out[taken++] = id;
                if (lists_.size(0) == 0) break;
            }
        }
        return taken;
    }

    IdLists lists_;
    std::vector<State> state_;
    uint32_t hand_ = kNoId;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_sieve(uint32_t capacity) {
    return std::make_unique<Sieve>(capacity);
}

}  // namespace quire
