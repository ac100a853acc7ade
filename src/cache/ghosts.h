// Ghosts: why a block that was once known is no longer there. Bounded, lossy, for explanations
// only.
//
// A direct-mapped table of the low hash words of blocks that left or never entered a tier. A
// collision overwrites, so an answer may be forgotten but is wrong only with probability 2^-64. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/hash128.h"
#include "core/tier.h"

namespace quire {

// Why a cached prefix ends where it does. Names are stable: metrics label and API word.
enum class MissReason : uint8_t {
    none,  // the whole prompt was served
    never_seen,
    evicted,
    corrupt,
    io_error,
    not_admitted,
    flushed,
    other_salt,
    other_tenant,
    other_model,
    other_packing,
    cheaper_to_recompute,
    no_space,
    cache_off,
};
inline constexpr int kMissReasonCount = 14;
std::string_view miss_reason_name(MissReason reason);

struct Ghost {
    MissReason reason = MissReason::none;
    Tier tier = Tier::g1;
    int64_t at_ns = 0;
    // `tier` still held the block then: if it does not any more, it is what gave it up, later.
    bool held_below = false;
};

class Ghosts {
 public:
    explicit Ghosts(uint32_t capacity_pow2 = 1 << 16) : entries_(capacity_pow2) {}

    void note(const PrefixHash& hash, const Ghost& ghost) {
        entries_[slot(hash)] = {hash.value.hi, ghost};
    }
    std::optional<Ghost> find(const PrefixHash& hash) const {
        const Entry& entry = entries_[slot(hash)];
        if (entry.tag != hash.value.hi || entry.ghost.reason == MissReason::none)
            return std::nullopt;
        return entry.ghost;
    }

 private:
    struct Entry {
        uint64_t tag = 0;
        Ghost ghost;
    };
    size_t slot(const PrefixHash& hash) const { return hash.value.lo & (entries_.size() - 1); }
    std::vector<Entry> entries_;
};

}  // namespace quire
