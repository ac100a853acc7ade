// Adaptive: follows whichever of several policies does best on the load at hand.
//
// All of them keep the same blocks; the one in charge chooses the victims. Beside them runs, for
// each, a MiniCache over a sample of the blocks (by hash), an equal share of the capacity in size.
// The policy whose miniature had the most hits lately takes charge; a lead of a few percent is
// needed, so that noise does not make it change hands.
#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "policy/mini_cache.h"
#include "policy/policies.h"

namespace quire {
namespace {

constexpr std::array<MiniCache::Make, 3> kExperts = {make_lru, make_lfuda, make_s3fifo};

class Adaptive final : public EvictionPolicy {
 public:
    explicit Adaptive(uint32_t capacity)
        : blocks_(capacity), sample_capacity_(std::max(capacity / kSampleOneIn, 1u)) {
        for (const auto make : kExperts) {
            experts_.push_back(make(capacity));
            minis_.emplace_back(make, sample_capacity_);
        }
    }

    void insert(uint32_t id, const EvictBlock& block) override {
        QUIRE_CHECK(id < blocks_.size(), "insert of a bad id");
        blocks_[id] = {block.hash, true};
        sample(block.hash);
        for (auto& expert : experts_) expert->insert(id, block);
    }

    void touch(uint32_t id) override {
        for (auto& expert : experts_) expert->touch(id);
        if (!blocks_[id].fresh) sample(blocks_[id].hash);
        blocks_[id].fresh = false;
    }

    void erase(uint32_t id) override {
        for (auto& expert : experts_) expert->erase(id);
    }

    size_t take_victims(std::span<uint32_t> out, Evictable evictable) override {
        const size_t taken = experts_[leader_]->take_victims(out, evictable);
        for (size_t e = 0; e < experts_.size(); ++e) {
            if (e == leader_) continue;
            for (size_t i = 0; i < taken; ++i) experts_[e]->erase(out[i]);
        }
        return taken;
    }

    size_t size() const override { return experts_[0]->size(); }

 private:
    static constexpr uint32_t kSampleOneIn = 8;
    static constexpr double kLead = 1.03;

    struct Block {
        Hash128 hash;
        bool fresh = false;
    };

    void sample(const Hash128& hash) {
        // Bits that no table here uses as its index.
        if ((hash.hi >> 40) % kSampleOneIn != 0) return;
        for (MiniCache& mini : minis_) mini.access(hash);
        if (++sampled_ < std::max<uint64_t>(1000, 8 * uint64_t{sample_capacity_})) return;
        sampled_ = 0;
        for (size_t e = 0; e < minis_.size(); ++e) {
            if (minis_[e].hits() > minis_[leader_].hits() * kLead) leader_ = e;
        }
        for (MiniCache& mini : minis_) mini.fade();
    }

    std::vector<std::unique_ptr<EvictionPolicy>> experts_;
    std::vector<MiniCache> minis_;
    std::vector<Block> blocks_;
    uint32_t sample_capacity_;
    uint64_t sampled_ = 0;
    size_t leader_ = 0;
};

}  // namespace

std::unique_ptr<EvictionPolicy> make_adaptive(uint32_t capacity) {
    return std::make_unique<Adaptive>(capacity);
}

}  // namespace quire
