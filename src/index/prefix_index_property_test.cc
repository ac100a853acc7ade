// Random histories, checked step by step against NaiveIndex.
#include <random>

#include <gtest/gtest.h>

#include "index/naive_index.h"
#include "index/prefix_index.h"

namespace quire {
namespace {

constexpr Tier kTiers[] = {Tier::g1, Tier::g2, Tier::g3, Tier::g35, Tier::g4};

// Hashes from a tiny alphabet, so that equal hashes occur under different parents and words
// collide.
PrefixHash tiny_hash(uint64_t letter) {
    return {{letter % 3, letter * 0x100}};
}

class History {
 public:
    History(uint64_t seed, const IndexOptions& options)
        : rng_(seed), options_(options), naive_(options) {
        auto index = PrefixIndex::create(options);
        EXPECT_TRUE(index.ok());
        index_ = std::move(*index);
    }

    void step() {
        switch (pick(10)) {
            case 0:
            case 1:
            case 2:
                return insert();
            case 3:
            case 4:
                return set_location();
            case 5:
            case 6:
                return clear_location();
            case 7:
                return pin();
            case 8:
                return unpin();
            default:
                return lookup();
        }
    }

    void verify() {
        const Status sound = index_->check();
        ASSERT_TRUE(sound.ok()) << sound.error().message;
        uint64_t pinned = 0;
        std::map<uint16_t, uint64_t> tenants;
        const auto all = naive_.all();
        for (const NaiveBlock* b : all) {
            verify_block(*b);
            if (testing::Test::HasFatalFailure()) return;
            pinned += b->pins > 0 ? 1 : 0;
            ++tenants[b->tenant];
        }
        ASSERT_EQ(index_->stats().blocks, all.size());
        ASSERT_EQ(index_->stats().pinned_blocks, pinned);
        for (uint16_t t = 0; t < 4; ++t) ASSERT_EQ(index_->tenant_blocks(t), tenants[t]);
    }

    // Takes everything away again; the index must end empty.
    void drain() {
        for (auto all = naive_.all(); !all.empty(); all = naive_.all()) {
            NaiveBlock* b = all[pick(all.size())];
            while (b->pins > 1) {
                --b->pins;
                index_->unpin(b->index);
            }
            while (b->slots.size() > 1) clear(b, b->slots.begin()->first);
            if (b->pins == 1 && b->slots.empty()) {
                unpin_block(b);
            } else if (b->pins == 1) {
                --b->pins;
                index_->unpin(b->index);
            } else if (b->slots.size() == 1) {
                clear(b, b->slots.begin()->first);
            } else if (b->children.empty()) {
                clear(b, {0, Tier::g1});
            }
        }
        ASSERT_EQ(index_->stats().blocks, 0u);
        ASSERT_TRUE(index_->check().ok());
    }

    const PrefixIndex& index() const { return *index_; }

 private:
    uint64_t pick(uint64_t bound) {
        return std::uniform_int_distribution<uint64_t>(0, bound - 1)(rng_);
    }

    std::vector<PrefixHash> random_chain() {
        std::vector<PrefixHash> chain;
        const auto all = naive_.all();
        if (!all.empty() && pick(4) != 0) {  // mostly: branch off or extend something known
            for (const NaiveBlock* b = all[pick(all.size())]; b != nullptr; b = b->parent) {
                chain.insert(chain.begin(), b->hash);
            }
        }
        for (size_t more = pick(pick(5) == 0 ? 40 : 6); more > 0; --more) {
            chain.push_back(tiny_hash(pick(4)));
        }
        return chain;
    }

    NaiveBlock* any() {
        const auto all = naive_.all();
        return all.empty() ? nullptr : all[pick(all.size())];
    }

    void insert() {
        const auto chain = random_chain();
        const bool pin = pick(2) == 0;
        const auto tenant = static_cast<uint16_t>(pick(3));
        std::vector<BlockIndex> out(chain.size());
        const Status status = index_->insert(chain, tenant, pin, out);
        const auto path = naive_.insert(chain, tenant, pin);
        ASSERT_EQ(status.ok(), path.size() == chain.size());
        if (!status.ok()) {
            ASSERT_EQ(status.code(), Code::full);
        }
        for (size_t i = 0; i < out.size(); ++i) {
            if (i >= path.size()) {
                ASSERT_EQ(out[i], kNoBlock);
            } else if (path[i]->index == kNoBlock) {
                path[i]->index = out[i];
            } else {
                ASSERT_EQ(path[i]->index, out[i]) << "a BlockIndex changed";
            }
        }
    }

    void set_location() {
        NaiveBlock* b = any();
        if (b == nullptr) return;
        const auto group = static_cast<uint32_t>(pick(options_.groups.size()));
        const Tier tier = kTiers[pick(5)];
        const auto slot = static_cast<uint32_t>(pick(1000));
        b->slots[{group, tier}] = tier <= Tier::g2 ? slot : 0;
        index_->set_location(b->index, group, tier, slot);
    }

    void clear(NaiveBlock* b, std::pair<uint32_t, Tier> where) {
        b->slots.erase(where);
        index_->clear_location(b->index, where.first, where.second);
        naive_.forget_unused(b);
    }

    void clear_location() {
        NaiveBlock* b = any();
        if (b == nullptr) return;
        if (!b->slots.empty() && pick(8) != 0) return clear(b, b->slots.begin()->first);
        clear(b, {static_cast<uint32_t>(pick(options_.groups.size())), kTiers[pick(5)]});
    }

    void pin() {
        NaiveBlock* b = any();
        if (b == nullptr) return;
        ++b->pins;
        index_->pin(b->index);
    }

    void unpin_block(NaiveBlock* b) {
        --b->pins;
        index_->unpin(b->index);
        if (b->pins == 0) naive_.forget_unused(b);
    }

    void unpin() {
        NaiveBlock* b = any();
        if (b != nullptr && b->pins > 0) unpin_block(b);
    }

    void lookup() {
        const auto chain = random_chain();
        std::vector<BlockIndex> out(chain.size());
        const uint32_t known = index_->find(chain, out);
        const auto path = naive_.find(chain);
        ASSERT_EQ(known, path.size());
        for (size_t i = 0; i < path.size(); ++i) ASSERT_EQ(out[i], path[i]->index);

        TierSet tiers;
        for (const Tier t : kTiers) {
            if (pick(2) == 0) tiers.add(t);
        }
        std::vector<uint8_t> ends(known);
        const auto found = std::span<const BlockIndex>(out).first(known);
        const uint32_t longest = index_->servable(found, tiers, ends);
        uint32_t best = 0;
        for (uint32_t n = 1; n <= known; ++n) {
            const bool serves = naive_.serves(path, n, tiers);
            ASSERT_EQ(ends[n - 1] != 0, serves) << "prefix of " << n;
            if (serves) best = n;
        }
        ASSERT_EQ(longest, best);
        const Match match = index_->match(found, chain.size(), tiers);
        ASSERT_EQ(match.blocks, best);
        ASSERT_EQ(match.known_blocks, known);
        if (best == chain.size()) {
            ASSERT_EQ(match.end, MatchEnd::whole_chain);
        } else if (best == known) {
            ASSERT_EQ(match.end, MatchEnd::never_seen);
        } else {
            ASSERT_EQ(match.end, MatchEnd::not_resident);
            ASSERT_FALSE(NaiveIndex::resident(*path[match.block], match.group, tiers));
        }
    }

    void verify_block(const NaiveBlock& b) {
        ASSERT_EQ(index_->hash(b.index), b.hash);
        ASSERT_EQ(index_->depth(b.index), b.depth);
        ASSERT_EQ(index_->tenant(b.index), b.tenant);
        ASSERT_EQ(index_->pins(b.index), b.pins);
        ASSERT_EQ(index_->parent(b.index), b.parent == nullptr ? kNoBlock : b.parent->index);
        for (uint32_t g = 0; g < options_.groups.size(); ++g) {
            TierSet tiers;
            for (const Tier t : kTiers) {
                const auto it = b.slots.find({g, t});
                ASSERT_EQ(index_->slot(b.index, g, t), it == b.slots.end() ? kNoSlot : it->second);
                if (it != b.slots.end()) tiers.add(t);
                ASSERT_EQ(index_->resident_children(b.index, g, t),
                          NaiveIndex::resident_children(b, g, t));
            }
            ASSERT_EQ(index_->tiers(b.index, g), tiers);
        }
        std::vector<BlockIndex> kids(b.children.size() + 1);
        kids.resize(index_->children(b.index, kids));
        std::vector<BlockIndex> expected;
        for (const auto& [hash, child] : b.children) expected.push_back(child->index);
        std::sort(kids.begin(), kids.end());
        std::sort(expected.begin(), expected.end());
        ASSERT_EQ(kids, expected);
    }

    std::mt19937_64 rng_;
    IndexOptions options_;
    NaiveIndex naive_;
    std::unique_ptr<PrefixIndex> index_;
};

IndexOptions options_for(uint64_t seed) {
    IndexOptions o;
    o.max_blocks = seed % 3 == 0 ? 24 : seed % 3 == 1 ? 200 : 5000;
    o.block_tokens = seed % 2 == 0 ? 4 : 1;
    o.groups = {{KvKind::full, 0}};
    if (seed % 4 >= 1) o.groups.push_back({KvKind::window, static_cast<uint32_t>(1 + seed % 17)});
    if (seed % 4 == 3) o.groups.push_back({KvKind::window, 9});
    // As many as there may be: layers with codes of several widths.
    if (seed % 5 == 4) o.groups.resize(kMaxGroups, o.groups.back());
    if (seed % 4 == 2) o.groups.erase(o.groups.begin());
    if (seed % 3 == 0) o.groups[0].kept_from = static_cast<uint32_t>(seed % 5);
    if (seed % 3 == 1) o.groups.back().kept_end = static_cast<uint32_t>(seed % 5);
    return o;
}

TEST(PrefixIndexProperty, RandomHistoriesEqualTheNaiveIndex) {
#ifdef QUIRE_SANITIZED
    constexpr uint64_t kSeeds = 12;
#else
    constexpr uint64_t kSeeds = 60;
#endif
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        History history(seed, options_for(seed));
        for (int i = 0; i < 500; ++i) {
            history.step();
            if (i % 5 == 0) history.verify();
            if (HasFatalFailure()) return;
        }
        history.drain();
        if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace quire
