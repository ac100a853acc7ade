#include "policy/mini_cache.h"

#include <span>

namespace quire {

MiniCache::MiniCache(Make make, uint32_t capacity) : policy_(make(capacity)), capacity_(capacity) {
    ids_.reserve(capacity);
    hashes_.reserve(capacity);
}

void MiniCache::access(const Hash128& hash) {
    const auto known = ids_.find(hash);
    if (known != ids_.end()) {
        hits_ += 1;
        policy_->touch(known->second);
        return;
    }
    uint32_t id = static_cast<uint32_t>(hashes_.size());
    if (hashes_.size() < capacity_) {
        hashes_.push_back(hash);
    } else {
        const Evictable anything{[](void*, uint32_t) { return true; }, nullptr};
        if (policy_->take_victims(std::span(&id, 1), anything) == 0) return;
        ids_.erase(hashes_[id]);
        hashes_[id] = hash;
    }
    ids_.emplace(hash, id);
    policy_->insert(id, {hash, 0, false, 0});
    policy_->touch(id);
}

}  // namespace quire
