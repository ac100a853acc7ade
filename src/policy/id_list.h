// IdLists: doubly linked lists over dense ids [0, capacity), one pair of links per id.
//
// An id is in at most one list. All verbs O(1); the queues that eviction policies are made of.
#pragma once

#include <cstdint>
#include <vector>

namespace quire {

inline constexpr uint32_t kNoId = ~uint32_t{0};

class IdLists {
 public:
    IdLists(uint32_t capacity, uint32_t lists) : links_(capacity), ends_(lists) {}

    uint32_t newest(uint32_t list) const { return ends_[list].newest; }
    uint32_t oldest(uint32_t list) const { return ends_[list].oldest; }
    // The next one towards the newest; kNoId after it.
    uint32_t newer(uint32_t id) const { return links_[id].newer; }
    uint32_t size(uint32_t list) const { return ends_[list].size; }

    void push_newest(uint32_t list, uint32_t id) {
        Ends& ends = ends_[list];
        links_[id] = {kNoId, ends.newest};
        (ends.newest == kNoId ? ends.oldest : links_[ends.newest].newer) = id;
        ends.newest = id;
        ++ends.size;
    }

    // REQUIRES: `id` is in `list`.
    void remove(uint32_t list, uint32_t id) {
        Ends& ends = ends_[list];
        const Links links = links_[id];
        (links.newer == kNoId ? ends.newest : links_[links.newer].older) = links.older;
        (links.older == kNoId ? ends.oldest : links_[links.older].newer) = links.newer;
        --ends.size;
    }

 private:
    struct Links {
        uint32_t newer = kNoId;
        uint32_t older = kNoId;
    };
    struct Ends {
        uint32_t newest = kNoId;
        uint32_t oldest = kNoId;
        uint32_t size = 0;
    };
    std::vector<Links> links_;
    std::vector<Ends> ends_;
};

}  // namespace quire
