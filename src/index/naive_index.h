// NaiveIndex: PrefixIndex as anyone would write it first, with one map node a block. The oracle of
// the property test; handles are its own, so that it shares nothing with the real one. Test only.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "index/prefix_index.h"

namespace quire {

struct NaiveBlock {
    PrefixHash hash;
    NaiveBlock* parent = nullptr;
    uint32_t depth = 0;
    uint16_t tenant = 0;
    uint32_t pins = 0;
    std::map<PrefixHash, std::unique_ptr<NaiveBlock>> children;
    std::map<std::pair<uint32_t, Tier>, uint32_t> slots;
    BlockIndex index = kNoBlock;  // the real index's name for it
};

class NaiveIndex {
 public:
    explicit NaiveIndex(IndexOptions options) : options_(std::move(options)) {}

    NaiveBlock* child(NaiveBlock* parent, const PrefixHash& hash) {
        auto& children = children_of(parent);
        const auto it = children.find(hash);
        return it == children.end() ? nullptr : it->second.get();
    }

    std::vector<NaiveBlock*> find(std::span<const PrefixHash> chain) {
        std::vector<NaiveBlock*> path;
        for (const PrefixHash& hash : chain) {
            NaiveBlock* next = child(path.empty() ? nullptr : path.back(), hash);
            if (next == nullptr) break;
            path.push_back(next);
        }
        return path;
    }

    // Stops at max_blocks.
    std::vector<NaiveBlock*> insert(std::span<const PrefixHash> chain, uint16_t tenant, bool pin) {
        std::vector<NaiveBlock*> path = find(chain);
        while (path.size() < chain.size() && blocks_ < options_.max_blocks) {
            auto block = std::make_unique<NaiveBlock>();
            block->hash = chain[path.size()];
            block->parent = path.empty() ? nullptr : path.back();
            block->depth = static_cast<uint32_t>(path.size());
            block->tenant = tenant;
            block->pins = pin ? 1 : 0;
            NaiveBlock* raw = block.get();
            children_of(raw->parent)[raw->hash] = std::move(block);
            path.push_back(raw);
            ++blocks_;
        }
        return path;
    }

    void forget_unused(NaiveBlock* block) {
        while (block != nullptr && block->pins == 0 && block->slots.empty() &&
               block->children.empty()) {
            NaiveBlock* parent = block->parent;
            const PrefixHash hash = block->hash;
            children_of(parent).erase(hash);
            --blocks_;
            block = parent;
        }
    }

    static bool resident(const NaiveBlock& block, uint32_t group, TierSet tiers) {
        for (const auto& [where, slot] : block.slots) {
            if (where.first == group && tiers.has(where.second)) return true;
        }
        return false;
    }

    static uint32_t resident_children(const NaiveBlock& block, uint32_t group, Tier tier) {
        uint32_t count = 0;
        for (const auto& [hash, c] : block.children) count += c->slots.count({group, tier}) ? 1 : 0;
        return count;
    }

    // Straight from the definition: the keys that a query at n * block_tokens sees, one by one.
    bool serves(std::span<NaiveBlock* const> path, size_t n, TierSet tiers) const {
        for (uint32_t g = 0; g < options_.groups.size(); ++g) {
            const GroupNeed& need = options_.groups[g];
            const int64_t query = static_cast<int64_t>(n) * options_.block_tokens;
            for (int64_t key = 0; key < query; ++key) {
                const bool seen = need.kind == KvKind::full || key > query - need.window_tokens;
                const auto number = static_cast<size_t>(key) / options_.block_tokens;
                const auto& block = *path[number];
                const bool kept = number >= need.kept_from && number < need.kept_end;
                if (seen && kept && !resident(block, g, tiers)) return false;
            }
        }
        return true;
    }

    uint64_t blocks() const { return blocks_; }
    std::vector<NaiveBlock*> all() const {
        std::vector<NaiveBlock*> list;
        for (const auto& [hash, root] : roots_) collect(root.get(), list);
        return list;
    }

 private:
    using Children = std::map<PrefixHash, std::unique_ptr<NaiveBlock>>;
    Children& children_of(NaiveBlock* parent) {
        return parent == nullptr ? roots_ : parent->children;
    }
    static void collect(NaiveBlock* block, std::vector<NaiveBlock*>& list) {
        list.push_back(block);
        for (const auto& [hash, child] : block->children) collect(child.get(), list);
    }

    IndexOptions options_;
    Children roots_;
    uint64_t blocks_ = 0;
};

}  // namespace quire
