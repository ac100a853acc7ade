// LFU with dynamic ageing: priority = uses + the age of the cache when last used, where the age is
// the priority of the last victim. What was popular long ago is passed by what is popular now.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "policy/id_list.h"
#include "policy/policies.h"

namespace quire {
namespace {

class LfuDa final : public EvictionPolicy {
 public:
    explicit LfuDa(uint32_t capacity) : lists_(capacity, kBuckets), blocks_(capacity) {}

    void insert(uint32_t id, const EvictBlock&) override {
        QUIRE_CHECK(id < blocks_.size() && blocks_[id].uses == 0, "insert of a bad or known id");
        blocks_[id] = {age_ + 1, 1, true};
        lists_.push_newest(bucket(id), id);
        ++size_;
    }

    void touch(uint32_t id) override {
        QUIRE_CHECK(id < blocks_.size() && blocks_[id].uses > 0, "touch of an absent id");
        Block& block = blocks_[id];
        if (!block.fresh) block.uses = std::min<uint32_t>(block.uses + 1, kMaxUses);
        block.fresh = false;
        move(id, age_ + block.uses);
    }

    void erase(uint32_t id) override {
        QUIRE_CHECK(id < blocks_.size() && blocks_[id].uses > 0, "erase of an absent id");
        lists_.remove(bucket(id), id);
        blocks_[id].uses = 0;
        --size_;
    }

    size_t take_victims(std::span<uint32_t> out, Evictable evictable) override {
        return scan_until_dry(out, [&](std::span<uint32_t> rest) { return scan(rest, evictable); });
    }

    size_t size() const override { return size_; }

 private:
    static constexpr uint32_t kMaxUses = 255;
    static constexpr uint32_t kBuckets = 512;

    struct Block {
        uint64_t priority = 0;
        uint32_t uses = 0;  // 0: absent
        bool fresh = false;
    };

    uint32_t bucket(uint32_t id) const {
        return static_cast<uint32_t>(blocks_[id].priority % kBuckets);
    }

    void move(uint32_t id, uint64_t priority) {
        lists_.remove(bucket(id), id);
        blocks_[id].priority = priority;
        lists_.push_newest(bucket(id), id);
    }

    void advance(uint64_t to) { age_ = std::max(age_, to); }

    size_t scan(std::span<uint32_t> out, Evictable evictable) {
        size_t taken = 0;
        // All priorities lie in [age, age + kMaxUses].
        const uint64_t end = age_ + kMaxUses + 1;
        blocked_.clear();
        for (uint64_t p = age_; p < end && taken < out.size() && size_ > 0; ++p) {
            const uint32_t list = static_cast<uint32_t>(p % kBuckets);
            for (uint32_t id = lists_.oldest(list); id != kNoId && taken < out.size();) {
                const uint32_t next = lists_.newer(id);
                if (evictable(id)) {
                    advance(p);
                    erase(id);
                    out[taken++] = id;
                } else if (p > age_ || taken == 0) {
                    blocked_.push_back(id);
                }
                id = next;
            }
        }
        // What was passed over but lags behind the new age is lifted to it, so that priorities stay
        // within the ring and the next call does not start with the same skips.
        for (const uint32_t id : blocked_) {
            if (blocks_[id].uses > 0 && blocks_[id].priority < age_) move(id, age_);
        }
        return taken;
    }

    IdLists lists_;
    std::vector<Block> blocks_;
    std::vector<uint32_t> blocked_;  // scratch
    uint64_t age_ = 0;
    size_t size_ = 0;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_lfuda(uint32_t capacity) {
    return std::make_unique<LfuDa>(capacity);
}

}  // namespace quire
