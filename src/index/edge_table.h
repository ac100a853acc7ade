// EdgeTable: from (parent block, hash of a child) to the child's block, for the first block of each
// run.
//
// Open addressing over 12-byte entries: the block, its parent and 32 bits of its hash, so that a
// foreign entry is passed over without touching its block; the caller confirms the rest. Grows by
// doubling; erases by shifting back, so there are no tombstones and the table depends on its
// content and history only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include "core/hash128.h"

namespace quire {

class EdgeTable {
 public:
    static constexpr uint32_t kNone = ~uint32_t{0};

    explicit EdgeTable(size_t expected_edges);

    // `same(block)` says whether an entry that agrees so far is the one looked for.
    template <typename Same>
    uint32_t find(uint32_t parent, const PrefixHash& hash, Same same) const {
        const uint32_t tag = tag_of(hash);
        for (size_t i = home_of(parent, hash);; i = (i + 1) & mask_) {
            const Entry& entry = entries_[i];
            if (entry.block == kNone) return kNone;
            if (entry.tag == tag && entry.parent == parent && same(entry.block)) return entry.block;
        }
    }

    // REQUIRES: the block is absent.
    void insert(uint32_t block, uint32_t parent, const PrefixHash& hash);
    // `hash_of(block)` reads a block's hash back. REQUIRES: the block is present.
    template <typename HashOf>
    void erase(uint32_t block, uint32_t parent, HashOf hash_of) {
        size_t hole = home_of(parent, hash_of(block));
        while (entries_[hole].block != block) hole = (hole + 1) & mask_;
        for (size_t i = (hole + 1) & mask_; entries_[i].block != kNone; i = (i + 1) & mask_) {
            const Entry& entry = entries_[i];
            const size_t home = home_of(entry.parent, hash_of(entry.block));
            // Moves back only an entry whose probe passes over the hole.
            if (((i - home) & mask_) >= ((i - hole) & mask_)) {
                entries_[hole] = entries_[i];
                hole = i;
            }
        }
        entries_[hole] = kEmpty;
        --size_;
    }
    template <typename HashOf>
    void grow_if_full(HashOf hash_of) {
        if ((size_ + 1) * 4 <= (mask_ + 1) * 3) return;
        const EdgeTable old = std::exchange(*this, EdgeTable(size_ + 1));
        for (size_t i = 0; i <= old.mask_; ++i) {
            const Entry& entry = old.entries_[i];
            if (entry.block != kNone) insert(entry.block, entry.parent, hash_of(entry.block));
        }
    }

    size_t size() const { return size_; }
    size_t memory_bytes() const { return (mask_ + 1) * sizeof(Entry); }

 private:
    struct Entry {
        uint32_t block;
        uint32_t parent;
        uint32_t tag;
    };
    static constexpr Entry kEmpty = {kNone, 0, 0};
    struct Free {
        void operator()(Entry* entries) const { std::free(entries); }
    };

    static uint32_t tag_of(const PrefixHash& hash) {
        return static_cast<uint32_t>(hash.value.lo >> 32);
    }
    size_t home_of(uint32_t parent, const PrefixHash& hash) const {
        // Hashes are uniform; the parent only has to part equal hashes under different parents.
        return (hash.value.lo ^ (uint64_t{parent} + 1) * 0x9E3779B97F4A7C15ull) & mask_;
    }

    std::unique_ptr<Entry[], Free> entries_;  // in huge pages where there are any
    size_t mask_;
    size_t size_ = 0;
};

}  // namespace quire
