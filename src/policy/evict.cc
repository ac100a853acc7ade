#include "policy/evict.h"

#include "policy/policies.h"

namespace quire {
namespace {

constexpr EvictionRow kRows[] = {
    {"lru", "least recently used, children before parents", make_lru},
    {"sieve", "one queue and a hand that spares what was used since it came by", make_sieve},
    {"s3fifo", "a small queue on trial before the main one, and ghosts", make_s3fifo},
    {"lfu-da", "least frequently used, with an age that lets old fame fade", make_lfuda},
    {"adaptive", "follows the best of lru, lfu-da and s3fifo on a sample of the load",
     make_adaptive},
};

}  // namespace

std::span<const EvictionRow> eviction_table() {
    return kRows;
}

const EvictionRow* find_eviction(std::string_view name) {
    for (const EvictionRow& row : kRows) {
        if (row.name == name) return &row;
    }
    return nullptr;
}

}  // namespace quire
