// EdgeTable: from (parent block, hash of a child) to the child's block, for the first block of each
// run.
//
// Open addressing over 4-byte entries; keys are not stored but read back from the block (the
// caller's `hashes` and a parent lookup), so an edge costs 6 to 12 bytes. Grows by doubling; erases
// by shifting back, so there are no tombstones and the table depends on its content and history
// only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/hash128.h"

namespace quire {

class EdgeTable {
 public:
    static constexpr uint32_t kNone = ~uint32_t{0};

    explicit EdgeTable(size_t expected_edges);

    static uint64_t key(uint32_t parent, const PrefixHash& hash) {
        // Hashes are uniform; the parent only has to separate equal hashes under different parents.
        return hash.value.lo ^ (uint64_t{parent} + 1) * 0x9E3779B97F4A7C15ull;
    }

    // `same(block)` says whether the entry is the one looked for.
    template <typename Same>
    uint32_t find(uint64_t key, Same same) const {
        for (size_t i = key & mask_;; i = (i + 1) & mask_) {
            const uint32_t block = entries_[i];
            if (block == kNone || same(block)) return block;
        }
    }

    // `key_of(block)` recomputes an entry's key. REQUIRES: the entry is absent.
    template <typename KeyOf>
    void insert(uint32_t block, KeyOf key_of) {
        if ((size_ + 1) * 10 > entries_.size() * 7) grow(key_of);
        place(block, key_of(block));
        ++size_;
    }

    // REQUIRES: the entry is present.
    template <typename KeyOf>
    void erase(uint32_t block, KeyOf key_of) {
        size_t hole = key_of(block) & mask_;
        while (entries_[hole] != block) hole = (hole + 1) & mask_;
        for (size_t i = (hole + 1) & mask_; entries_[i] != kNone; i = (i + 1) & mask_) {
            const size_t home = key_of(entries_[i]) & mask_;
            // Moves back only an entry whose probe passes over the hole.
            if (((i - home) & mask_) >= ((i - hole) & mask_)) {
                entries_[hole] = entries_[i];
                hole = i;
            }
        }
        entries_[hole] = kNone;
        --size_;
    }

    void prefetch(uint64_t key) const { __builtin_prefetch(&entries_[key & mask_]); }
    size_t size() const { return size_; }
    size_t memory_bytes() const { return entries_.capacity() * sizeof(uint32_t); }

 private:
    void place(uint32_t block, uint64_t key) {
        size_t i = key & mask_;
        while (entries_[i] != kNone) i = (i + 1) & mask_;
        entries_[i] = block;
    }

    template <typename KeyOf>
    void grow(KeyOf key_of) {
        std::vector<uint32_t> old(entries_.size() * 2, kNone);
        old.swap(entries_);
        mask_ = entries_.size() - 1;
        for (const uint32_t block : old) {
            if (block != kNone) place(block, key_of(block));
        }
    }

    std::vector<uint32_t> entries_;
    size_t mask_;
    size_t size_ = 0;
};

}  // namespace quire
