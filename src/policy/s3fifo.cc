// S3-FIFO: newcomers wait in a small queue (a tenth) and reach the main one only if used again
// there, or if they come back soon after leaving (ghosts). The main queue gives second chances by a
// 2-bit count.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "policy/ghost_set.h"
#include "policy/id_list.h"
#include "policy/policies.h"

namespace quire {
namespace {

class S3Fifo final : public EvictionPolicy {
 public:
    explicit S3Fifo(uint32_t capacity)
        : lists_(capacity, 2),
          blocks_(capacity),
          ghosts_(capacity),
          small_target_(std::max(capacity / 10, 1u)) {}

    void insert(uint32_t id, const EvictBlock& block) override {
        QUIRE_CHECK(id < blocks_.size() && !blocks_[id].present, "insert of a bad or known id");
        const Queue queue = ghosts_.take(block.hash) ? kMain : kSmall;
        blocks_[id] = {block.hash, queue, 0, true, true};
        lists_.push_newest(queue, id);
    }

    void touch(uint32_t id) override {
        QUIRE_CHECK(id < blocks_.size() && blocks_[id].present, "touch of an absent id");
        Block& block = blocks_[id];
        if (!block.fresh) {
            block.uses = std::min<uint8_t>(block.uses + 1, kMaxUses);
            return;
        }
        // The end of its first request: children now queue before parents.
        block.fresh = false;
        requeue(id, block.queue);
    }

    void erase(uint32_t id) override {
        QUIRE_CHECK(id < blocks_.size() && blocks_[id].present, "erase of an absent id");
        lists_.remove(blocks_[id].queue, id);
        blocks_[id].present = false;
    }

    size_t take_victims(std::span<uint32_t> out, Evictable evictable) override {
        return scan_until_dry(out, [&](std::span<uint32_t> rest) { return scan(rest, evictable); });
    }

    size_t size() const override { return lists_.size(kSmall) + lists_.size(kMain); }

 private:
    enum Queue : uint8_t { kSmall, kMain };
    static constexpr uint8_t kMaxUses = 3;

    struct Block {
        Hash128 hash;
        Queue queue = kSmall;
        uint8_t uses = 0;
        bool fresh = false;
        bool present = false;
    };

    void requeue(uint32_t id, Queue to) {
        lists_.remove(blocks_[id].queue, id);
        blocks_[id].queue = to;
        lists_.push_newest(to, id);
    }

    bool leave_small(uint32_t id, Evictable evictable) {
        if (blocks_[id].uses > 0) {
            blocks_[id].uses = 0;
            requeue(id, kMain);
            return false;
        }
        if (!evictable(id)) {  // pinned, or children live on it: it has proven itself
            requeue(id, kMain);
            return false;
        }
        ghosts_.add(blocks_[id].hash);
        erase(id);
        return true;
    }

    bool leave_main(uint32_t id, Evictable evictable) {
        if (blocks_[id].uses > 0) {
            --blocks_[id].uses;
        } else if (evictable(id)) {
            erase(id);
            return true;
        }
        requeue(id, kMain);
        return false;
    }

    size_t scan(std::span<uint32_t> out, Evictable evictable) {
        size_t taken = 0;
        // Each block may lose all its uses and be blocked once, in either queue.
        uint64_t steps = (kMaxUses + 2) * uint64_t{size()};
        while (taken < out.size() && size() > 0 && steps-- > 0) {
            const bool from_small = lists_.size(kSmall) > small_target_ || lists_.size(kMain) == 0;
            const uint32_t id = lists_.oldest(from_small ? kSmall : kMain);
            if (from_small ? leave_small(id, evictable) : leave_main(id, evictable)) {
                out[taken++] = id;
            }
        }
        // Nothing in main may go: then even a small queue below its target must give.
        for (uint32_t n = lists_.size(kSmall); n > 0 && taken < out.size(); --n) {
            const uint32_t id = lists_.oldest(kSmall);
            if (leave_small(id, evictable)) out[taken++] = id;
        }
        return taken;
    }

    IdLists lists_;
    std::vector<Block> blocks_;
    GhostSet ghosts_;
    uint32_t small_target_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_s3fifo(uint32_t capacity) {
    return std::make_unique<S3Fifo>(capacity);
}

}  // namespace quire
