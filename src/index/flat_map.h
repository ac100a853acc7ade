// FlatMap: the peer that PrefixIndex is measured against: every block of every chain in one
// open-addressing table, looked up one by one.
//
// Power-of-two size, linear probing, at most 60 % full, key and value side by side, huge pages; the
// walk prefetches ahead, which a chain allows because its hashes are known beforehand. Bench and
// test only.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <utility>

#include "base/prefetch.h"
#include "index/lazy_array.h"
#include "index/prefix_index.h"

namespace quire {

class FlatMap {
 public:
    static Result<FlatMap> create(size_t max_keys) {
        FlatMap map;
        const size_t slots = std::bit_ceil(max_keys * 5 / 3 + 1);
        auto entries = LazyArray<Entry>::reserve(slots);
        if (!entries.ok()) return entries.error();
        map.entries_ = std::move(*entries);
        map.mask_ = slots - 1;
        return map;
    }

    void insert(const PrefixHash& key, uint32_t value) {
        size_t i = key.value.lo & mask_;
        while (entries_[i].used != 0 && entries_[i].key != key) i = (i + 1) & mask_;
        entries_[i] = {key, value, 1};
    }

    // Like PrefixIndex::find: the values of the leading keys that are known. kAhead: how many keys
    // to prefetch ahead of the one looked up.
    template <size_t kAhead>
    uint32_t walk(std::span<const PrefixHash> chain, std::span<uint32_t> out) const {
        for (size_t i = 0; i < chain.size() && i < kAhead; ++i) prefetch(chain[i]);
        size_t n = 0;
        for (; n < chain.size(); ++n) {
            if (kAhead > 0 && n + kAhead < chain.size()) prefetch(chain[n + kAhead]);
            size_t i = chain[n].value.lo & mask_;
            while (entries_[i].used != 0 && entries_[i].key != chain[n]) i = (i + 1) & mask_;
            if (entries_[i].used == 0) break;
            out[n] = entries_[i].value;
        }
        return static_cast<uint32_t>(n);
    }

    uint64_t memory_bytes() const { return (mask_ + 1) * sizeof(Entry); }

 private:
    struct Entry {
        PrefixHash key;
        uint32_t value;
        uint32_t used;  // the table starts zeroed
    };

    void prefetch(const PrefixHash& key) const {
        prefetch_l1(&entries_[key.value.lo & mask_]);
    }

    LazyArray<Entry> entries_;
    size_t mask_ = 0;
};

}  // namespace quire
