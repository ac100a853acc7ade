// MiniCache: what one policy would do with a sample of the blocks and a cache as much smaller.
//
// Counts the hits that the policy would have had lately, so that policies can be compared while
// another one is in charge. Ignores pins and parents. Bounded memory.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/hash128.h"
#include "policy/evict.h"

namespace quire {

class MiniCache {
 public:
    using Make = std::unique_ptr<EvictionPolicy> (*)(uint32_t capacity);
    MiniCache(Make make, uint32_t capacity);

    void access(const Hash128& hash);
    double hits() const { return hits_; }
    void fade() { hits_ /= 2; }

 private:
    std::unique_ptr<EvictionPolicy> policy_;
    std::unordered_map<Hash128, uint32_t, Hash128Hasher> ids_;
    std::vector<Hash128> hashes_;
    uint32_t capacity_;
    double hits_ = 0;
};

}  // namespace quire
