#include "index/prefix_index.h"

#include <numeric>
#include <random>

#include <gtest/gtest.h>

namespace quire {
namespace {

IndexOptions small_options() {
    IndexOptions options;
    options.max_blocks = 64;
    options.block_tokens = 16;
    options.groups = {{KvKind::full, 0}, {KvKind::window, 32}};
    return options;
}

std::unique_ptr<PrefixIndex> make(const IndexOptions& options) {
    auto index = PrefixIndex::create(options);
    EXPECT_TRUE(index.ok()) << index.error().message;
    return std::move(*index);
}

std::vector<PrefixHash> chain_of(uint64_t seed, size_t blocks) {
    std::mt19937_64 rng(seed);
    std::vector<PrefixHash> chain(blocks);
    for (PrefixHash& hash : chain) hash = {{rng(), rng()}};
    return chain;
}

TierSet only(Tier tier) {
    TierSet set;
    set.add(tier);
    return set;
}

TEST(PrefixIndex, RefusesOptionsItCannotServe) {
    const auto code_of = [](auto change) {
        IndexOptions options = small_options();
        change(options);
        return PrefixIndex::create(options).code();
    };
    EXPECT_EQ(code_of([](auto& o) { o.max_blocks = 0; }), Code::invalid);
    EXPECT_EQ(code_of([](auto& o) { o.max_blocks = ~0u; }), Code::invalid);
    EXPECT_EQ(code_of([](auto& o) { o.block_tokens = 0; }), Code::invalid);
    EXPECT_EQ(code_of([](auto& o) { o.block_tokens = 257; }), Code::invalid);
    EXPECT_EQ(code_of([](auto& o) { o.groups.clear(); }), Code::invalid);
    EXPECT_EQ(code_of([](auto& o) { o.groups.resize(kMaxGroups + 1); }), Code::invalid);
    EXPECT_EQ(code_of([](auto& o) { o.groups[1].window_tokens = 0; }), Code::invalid);
    EXPECT_EQ(code_of([](auto& o) { o.groups[0].kind = KvKind::recurrent; }), Code::unsupported);
    EXPECT_EQ(code_of([](auto&) {}), Code::ok);
}

TEST(PrefixIndex, AWindowGroupNeedsOnlyTheBlocksUnderItsWindow) {
    const auto index = make(small_options());
    const auto chain = chain_of(1, 8);
    std::vector<BlockIndex> blocks(8);
    ASSERT_TRUE(index->insert(chain, 0, true, blocks).ok());
    for (const BlockIndex b : blocks) index->set_location(b, 0, Tier::g1, b);
    // At 8 blocks a query at 128 sees keys 97 to 127: blocks 6 and 7.
    index->set_location(blocks[6], 1, Tier::g1, 1);
    Match match = index->match(blocks, 8, only(Tier::g1));
    EXPECT_EQ(match.blocks, 0u);
    EXPECT_EQ(match.end, MatchEnd::not_resident);
    EXPECT_EQ(match.group, 1u);
    index->set_location(blocks[7], 1, Tier::g1, 2);
    match = index->match(blocks, 8, only(Tier::g1));
    EXPECT_EQ(match.blocks, 8u) << "prefixes of 1 to 7 cannot serve, 8 can";
    EXPECT_EQ(match.end, MatchEnd::whole_chain);
    EXPECT_EQ(index->match(blocks, 8, only(Tier::g2)).blocks, 0u);
    std::vector<uint8_t> ends(8);
    EXPECT_EQ(index->servable(blocks, only(Tier::g1), ends), 8u);
    EXPECT_EQ(ends, (std::vector<uint8_t>{0, 0, 0, 0, 0, 0, 0, 1}));
    // The full group ends the match at the first block it lost.
    index->clear_location(blocks[3], 0, Tier::g1);
    index->set_location(blocks[0], 1, Tier::g1, 3);
    match = index->match(blocks, 8, only(Tier::g1));
    EXPECT_EQ(match.blocks, 1u);
}

TEST(PrefixIndex, AMissSaysWhy) {
    const auto index = make(small_options());
    const auto chain = chain_of(2, 4);
    std::vector<BlockIndex> blocks(4);
    ASSERT_TRUE(index->insert(std::span(chain).first(2), 0, true, blocks).ok());
    for (int i = 0; i < 2; ++i) {
        for (uint32_t g = 0; g < 2; ++g) index->set_location(blocks[i], g, Tier::g2, 7);
    }
    ASSERT_EQ(index->find(chain, blocks), 2u);
    const auto known = std::span<const BlockIndex>(blocks).first(2);
    Match match = index->match(known, 4, only(Tier::g2));
    EXPECT_EQ(match.end, MatchEnd::never_seen);
    EXPECT_EQ(match.blocks, 2u);
    EXPECT_EQ(match.known_blocks, 2u);
    index->clear_location(blocks[1], 1, Tier::g2);
    match = index->match(known, 4, only(Tier::g2));
    EXPECT_EQ(match.end, MatchEnd::not_resident);
    EXPECT_EQ(match.blocks, 1u);
    EXPECT_EQ(match.group, 1u);
    EXPECT_EQ(match.block, 1u);
    EXPECT_EQ(index->match({}, 0, only(Tier::g2)).end, MatchEnd::whole_chain);
}

TEST(PrefixIndex, ABlockStaysWhileAnythingHoldsIt) {
    const auto index = make(small_options());
    const auto chain = chain_of(3, 3);
    std::vector<BlockIndex> b(3), found(3);
    ASSERT_TRUE(index->insert(chain, 5, true, b).ok());
    EXPECT_EQ(index->tenant_blocks(5), 3u);
    index->set_location(b[1], 0, Tier::g3, 0);
    for (const BlockIndex block : b) index->unpin(block);
    // Block 2 went with its pin; 1 has a location and holds 0 as its parent.
    EXPECT_EQ(index->find(chain, found), 2u);
    EXPECT_EQ(index->resident_children(b[0], 0, Tier::g3), 1u);
    EXPECT_EQ(index->slot(b[1], 0, Tier::g3), 0u);
    EXPECT_EQ(index->slot(b[1], 0, Tier::g1), kNoSlot);
    index->clear_location(b[1], 0, Tier::g3);
    EXPECT_EQ(index->stats().blocks, 0u);
    EXPECT_EQ(index->tenant_blocks(5), 0u);
    EXPECT_TRUE(index->check().ok());
}

TEST(PrefixIndex, FullKeepsWhatFitted) {
    const auto index = make(small_options());
    const auto chain = chain_of(4, 100);
    std::vector<BlockIndex> b(100);
    const Status full = index->insert(chain, 0, true, b);
    EXPECT_EQ(full.code(), Code::full);
    EXPECT_EQ(full.error().detail, 64);
    EXPECT_NE(b[63], kNoBlock);
    EXPECT_EQ(b[64], kNoBlock);
    EXPECT_EQ(index->stats().blocks, 64u);
    EXPECT_TRUE(index->check().ok());
    // A known chain still inserts; a branch finds no room and leaves no trace.
    std::vector<BlockIndex> again(64);
    EXPECT_TRUE(index->insert(std::span(chain).first(64), 0, false, again).ok());
    auto branch = chain_of(5, 20);
    std::copy_n(chain.begin(), 10, branch.begin());
    EXPECT_EQ(index->insert(branch, 0, true, b).code(), Code::full);
    EXPECT_EQ(b[9], again[9]);
    EXPECT_EQ(b[10], kNoBlock);
    EXPECT_TRUE(index->check().ok());
    EXPECT_EQ(index->pins(again[9]), 1u);
}

TEST(PrefixIndex, HashesComeBackToTheLastBit) {
    const auto index = make(small_options());
    std::vector<PrefixHash> chain = {{{0, 0}}, {{~0ull, ~0ull}}, {{1, 1}}, {{2, 2}}};
    std::vector<BlockIndex> b(4);
    ASSERT_TRUE(index->insert(chain, 0, true, b).ok());
    for (int i = 0; i < 4; ++i) EXPECT_EQ(index->hash(b[i]), chain[i]) << i;
    index->pin(b[1]);
    EXPECT_EQ(index->hash(b[1]), chain[1]);
    EXPECT_EQ(index->pins(b[1]), 2u);
}

// Equal low halves, different high halves: as near to a collision as a test can get.
TEST(PrefixIndex, HalfAHashIsNotEnough) {
    const auto index = make(small_options());
    const std::vector<PrefixHash> chain = {{{1, 10}}, {{1, 20}}, {{1, 30}}};
    std::vector<BlockIndex> b(3), found(3);
    ASSERT_TRUE(index->insert(chain, 0, true, b).ok());
    EXPECT_EQ(index->find(std::vector<PrefixHash>{{{2, 10}}}, found), 0u);
    // A chain hash covers its ancestors: only the last equal block vouches for those before it.
    EXPECT_EQ(index->find(std::vector<PrefixHash>{{{1, 10}}, {{1, 20}}, {{2, 30}}}, found), 2u);
    EXPECT_EQ(index->find(std::vector<PrefixHash>{{{1, 10}}, {{2, 20}}, {{2, 30}}}, found), 1u);
    EXPECT_EQ(index->find(std::vector<PrefixHash>{{{1, 10}}, {{2, 20}}}, found), 1u);
    // And such a sibling can live beside it.
    std::vector<BlockIndex> other(2);
    const std::vector<PrefixHash> sibling = {{{1, 10}}, {{2, 20}}};
    ASSERT_TRUE(index->insert(sibling, 0, true, other).ok());
    EXPECT_NE(other[1], b[1]);
    EXPECT_EQ(index->find(sibling, found), 2u);
    EXPECT_EQ(found[1], other[1]);
    EXPECT_TRUE(index->check().ok());
}

TEST(PrefixIndex, SequencesThatGrowInTurnStayContiguous) {
    IndexOptions options = small_options();
    options.max_blocks = 20000;
    const auto index = make(options);
    std::vector<std::vector<PrefixHash>> chains;
    for (uint64_t s = 0; s < 8; ++s) chains.push_back(chain_of(100 + s, 100));
    std::vector<BlockIndex> out(100);
    for (size_t n = 1; n <= 100; ++n) {
        for (const auto& chain : chains) {
            ASSERT_TRUE(index->insert(std::span(chain).first(n), 0, false, out).ok());
        }
    }
    for (const auto& chain : chains) {
        ASSERT_EQ(index->find(chain, out), 100u);
        for (size_t i = 1; i < 100; ++i) EXPECT_EQ(out[i], out[0] + i);
    }
}

// Memory is bounded whatever the shape: every chain one block long is the worst.
TEST(PrefixIndex, MemoryStaysWithinItsBound) {
    IndexOptions options = small_options();
    options.max_blocks = 100'000;
    std::mt19937_64 rng(6);
    for (const size_t length : {size_t{1}, size_t{2}, size_t{100}}) {
        const auto index = make(options);
        std::vector<BlockIndex> out(length);
        std::vector<BlockIndex> held;
        // Fills up, then replaces at random for a while.
        for (int i = 0; i < 300'000 / static_cast<int>(length); ++i) {
            while (options.max_blocks - index->stats().blocks < length) {
                const size_t k = rng() % held.size();
                index->unpin(held[k]);
                held[k] = held.back();
                held.pop_back();
            }
            const auto chain = chain_of(rng(), length);
            ASSERT_TRUE(index->insert(chain, 0, false, out).ok());
            index->pin(out.back());
            held.push_back(out.back());
        }
        const IndexStats stats = index->stats();
        EXPECT_EQ(stats.blocks, options.max_blocks / length * length);
        const double bytes = static_cast<double>(stats.memory_bytes) / options.max_blocks;
        EXPECT_LE(bytes, length == 100 ? 80 : 160) << "chains of " << length;
        EXPECT_TRUE(index->check().ok());
    }
}

TEST(PrefixIndex, IsDeterministic) {
    std::vector<BlockIndex> all[2];
    for (auto& seen : all) {
        IndexOptions options = small_options();
        options.max_blocks = 500;
        const auto index = make(options);
        std::mt19937_64 rng(9);
        for (int i = 0; i < 400; ++i) {
            auto chain = chain_of(rng() % 40, 1 + rng() % 20);
            std::vector<BlockIndex> out(chain.size());
            const bool ok = index->insert(chain, 0, false, out).ok();
            seen.insert(seen.end(), out.begin(), out.end());
            if (!ok || i % 3 == 0) {
                if (out[0] != kNoBlock)
                    index->clear_location(out[rng() % index->find(chain, out)], 0, Tier::g1);
            }
        }
        EXPECT_TRUE(index->check().ok());
    }
    EXPECT_EQ(all[0], all[1]);
}

}  // namespace
}  // namespace quire
