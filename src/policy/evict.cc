#include "policy/evict.h"

#include "policy/policies.h"

namespace quire {
namespace {

constexpr EvictionRow kRows[] = {
    {"lru", "least recently used, children before parents", make_lru},
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
