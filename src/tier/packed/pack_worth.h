// Whether packing pays, by what it saved of the last slabs.
//
// Packing without loss saves a share of the bytes that depends on the pages: of f16 little, of
// codes next to nothing. A slab that gets smaller by less than a sixteenth stays as it is, for
// unpacking takes longer than reading so little more; and a group of whose slabs so many in a row
// did is only tried now and then. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace quire {

// Of slabs that are packed without loss.
[[gnu::always_inline]] constexpr bool is_worth_packing(size_t from_bytes, size_t to_bytes) {
    return to_bytes <= from_bytes - from_bytes / 16;
}

class PackWorth {
 public:
    static constexpr uint32_t kInARow = 8;
    static constexpr uint32_t kNowAndThen = 64;

    // Whether the next slab of the group is to be tried.
    bool tries(uint16_t group) {
        Group& g = groups_[group];
        return g.in_vain < kInARow || ++g.passed % kNowAndThen == 0;
    }
    void saw(uint16_t group, bool was_worth) {
        Group& g = groups_[group];
        g.in_vain = was_worth ? 0 : g.in_vain + 1;
    }

 private:
    struct Group {
        uint32_t in_vain = 0;  // in a row
        uint32_t passed = 0;   // since then
    };
    std::map<uint16_t, Group> groups_;
};

}  // namespace quire
