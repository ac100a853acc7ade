// GhostSet: the last `capacity` hashes that were added, for recognising what was evicted lately.
//
// A ring of 64-bit fingerprints with an open-addressing table over it; bounded memory, O(1), no
// allocation after construction. A false match needs equal low halves of two digests.
#pragma once

#include <cstdint>
#include <vector>

#include "core/hash128.h"

namespace quire {

class GhostSet {
 public:
    explicit GhostSet(uint32_t capacity);

    void add(const Hash128& hash);
    // Removes the hash; false if it is not there.
    bool take(const Hash128& hash);
    uint32_t size() const { return size_; }

 private:
    static constexpr uint32_t kNone = ~uint32_t{0};

    size_t find(uint64_t word) const;
    void erase_entry(size_t at);

    std::vector<uint64_t> ring_;
    std::vector<bool> live_;
    std::vector<uint32_t> table_;  // positions in the ring
    size_t mask_;
    uint32_t next_ = 0;
    uint32_t size_ = 0;
};

}  // namespace quire
