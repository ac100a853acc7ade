// Layouts with codes: sinks in exact groups, the rest as codes, open blocks that nobody else sees.
#include <gtest/gtest.h>

#include "cache/testing/harness.h"

namespace quire {
namespace {

using testing::coded_layout;
using testing::Harness;
using testing::some_tokens;

// Slabs that a lease holds in a group.
std::vector<uint32_t> held_blocks(const Harness& h, LeaseId id, uint32_t group) {
    std::vector<uint32_t> blocks;
    const auto table = h.cache->table(id, group);
    for (uint32_t b = 0; b < table.size(); ++b)
        if (table[b]) blocks.push_back(b);
    return blocks;
}

TEST(CacheCodes, ExactPagesOfABlockGoWhenItIsWhole) {
    Harness h(60, coded_layout());
    const auto prompt = some_tokens(16 * 12 + 5, 1);
    const LeaseId id = h.acquire(prompt);
    uint32_t computed = 0;
    h.compute(id, prompt, {}, 24, [&] {
        computed = std::min<uint32_t>(computed + 24, static_cast<uint32_t>(prompt.size()));
        const uint32_t open = computed / 16;
        std::vector<uint32_t> exact = {0}, codes;
        if (computed > 16) exact = {0, 1};
        if (open >= 2 && computed % 16 != 0) exact.push_back(open);
        for (uint32_t b = 2; b < (computed + 15) / 16; ++b) codes.push_back(b);
        EXPECT_EQ(held_blocks(h, id, 0), exact) << "at " << computed;
        EXPECT_EQ(held_blocks(h, id, 2), codes) << "at " << computed;
    });
    // Behind its window, a layer's sinks are let go, too: keys above 197 - 40.
    EXPECT_EQ(held_blocks(h, id, 1), (std::vector<uint32_t>{12}));
    EXPECT_EQ(held_blocks(h, id, 3), (std::vector<uint32_t>{9, 10, 11, 12}));
    h.cache->release(id);
    h.settle_stores();
    // 2 sinks and 10 coded blocks of the two kinds of layers; the open block is nobody's.
    EXPECT_EQ(h.cache->stats().g1_blocks, 2u * (2 + 10));
    EXPECT_EQ(h.blocks_in(0), 2u * (2 + 10));
    EXPECT_EQ(h.cache->stats().pinned_blocks, 0u);
}

TEST(CacheCodes, APrefixIsFoundInEveryTierUpToAWholeBlock) {
    Harness h(60, coded_layout());
    const auto prompt = some_tokens(16 * 8, 2);
    h.serve(prompt);
    for (const bool cold : {false, true}) {
        if (cold) h.cache->flush(Tier::g1);
        const LeaseId id = h.acquire(prompt);
        h.settle(id);
        // The last block is computed: a copy of its codes would lack the exact numbers.
        EXPECT_EQ(h.cache->info(id).cached_tokens, 16u * 7) << cold;
        h.expect_pages(id, prompt, {});
        h.compute(id, prompt, {});
        h.cache->release(id);
        h.settle_stores();
    }
    EXPECT_GT(h.cache->stats().deduplicated_blocks, 0u);
}

// Spans of three blocks, of which the third begins with block 6.
KvLayout layout_of_spans() {
    KvLayout layout = coded_layout();
    layout.span_tokens = 48;
    return layout;
}

TEST(CacheCodes, ExactPagesOfASpanGoWhenItIsOver) {
    Harness h(60, layout_of_spans());
    const auto prompt = some_tokens(16 * 12 + 5, 1);
    const LeaseId id = h.acquire(prompt);
    uint32_t computed = 0;
    h.compute(id, prompt, {}, 24, [&] {
        computed = std::min<uint32_t>(computed + 24, static_cast<uint32_t>(prompt.size()));
        std::vector<uint32_t> exact = {0}, codes;
        if (computed > 16) exact = {0, 1};
        for (uint32_t b = std::max(2u, computed / 48 * 3); b < (computed + 15) / 16; ++b)
            exact.push_back(b);
        for (uint32_t b = 2; b < (computed + 15) / 16; ++b) codes.push_back(b);
        EXPECT_EQ(held_blocks(h, id, 0), exact) << "at " << computed;
        EXPECT_EQ(held_blocks(h, id, 2), codes) << "at " << computed;
    });
    h.cache->release(id);
    h.settle_stores();
    EXPECT_EQ(h.cache->stats().g1_blocks, 2u * (2 + 10)) << "what is exact was named";
    EXPECT_EQ(h.cache->stats().pinned_blocks, 0u);
}

TEST(CacheCodes, APrefixIsTakenUpToAWholeSpan) {
    Harness h(60, layout_of_spans());
    const auto prompt = some_tokens(16 * 8 + 3, 2);
    h.serve(prompt);
    for (const bool cold : {false, true}) {
        if (cold) h.cache->flush(Tier::g1);
        for (const auto& [tokens, cached] : {std::pair<uint32_t, uint32_t>{16 * 8 + 3, 96},
                                             {16 * 6 + 1, 96},
                                             {16 * 6, 48},
                                             {16 * 2 + 1, 32},
                                             {16 * 1 + 1, 16}}) {
            const TokenSpan part = TokenSpan(prompt).first(tokens);
            const LeaseId id = h.acquire(part);
            h.settle(id);
            EXPECT_EQ(h.cache->info(id).cached_tokens, cached) << tokens << " " << cold;
            EXPECT_EQ(h.cache->info(id).miss, MissReason::none);
            EXPECT_EQ(h.cache->explain(part, {}).reason, MissReason::none);
            h.expect_pages(id, part, {});
            h.compute(id, part, {});
            h.cache->release(id);
            h.settle_stores();
        }
    }
    auto longer = prompt;
    longer.resize(16 * 9 + 1, TokenId{3});
    const CacheExplanation why = h.cache->explain(longer, {});
    EXPECT_EQ(why.hit_blocks, 6u);
    EXPECT_EQ(why.reason, MissReason::never_seen);
    EXPECT_EQ(h.cache->stats().pinned_blocks, 0u);
}

// Who wants what another lease computes gets it by spans, and waits for no part of one.
TEST(CacheCodes, AnotherLeasesSpanIsWaitedForWhole) {
    Harness h(60, layout_of_spans());
    const auto prompt = some_tokens(16 * 11 + 1, 4);
    const LeaseId first = h.acquire(prompt);
    const LeaseId second = h.acquire(prompt);
    uint32_t computed = 0;
    h.compute(first, prompt, {}, 16, [&] {
        computed += 16;
        h.cache->poll();
        const LeaseInfo& info = h.cache->info(second);
        EXPECT_EQ(info.state, computed < 144 ? LeaseState::waiting : LeaseState::ready) << computed;
        if (info.state == LeaseState::ready) {
            EXPECT_EQ(info.cached_tokens, 144u);
        }
    });
    h.compute(second, prompt, {});
    h.cache->release(first);
    h.cache->release(second);
    h.settle_stores();
    EXPECT_EQ(h.cache->stats().pinned_blocks, 0u);
}

TEST(CacheCodes, WithoutItsSinksAPrefixIsWorthNothing) {
    Harness h(60, coded_layout());
    const auto prompt = some_tokens(16 * 8 + 1, 3);
    h.serve(prompt);
    h.cache->flush(Tier::g1);
    BlockChain chain(chain_root(h.options.model, {}), 16);
    chain.append(prompt);
    const Hash128 scope = key_scope(h.options.model, h.options.layout.digest(), 0, kCodecRaw16, "");
    const BlockKey sink = block_key(scope, chain.blocks()[1]);
    for (auto& store : h.stores) store->erase({&sink, 1});
    const LeaseId id = h.acquire(prompt);
    h.settle(id);
    EXPECT_EQ(h.cache->info(id).cached_tokens, 16u);
    h.cache->release(id);
}

TEST(CacheCodes, PagesCodedOtherwiseAreNeverFound) {
    Harness h(60, coded_layout());
    const auto prompt = some_tokens(16 * 8 + 1, 4);
    h.serve(prompt);
    using Edit = void (*)(KvLayout&);
    const Edit edits[] = {
        [](KvLayout& l) { l.groups[2].pages.codec = 0x4503; },
        [](KvLayout& l) { l.groups[2].pages.version = 2; },
        [](KvLayout& l) { l.groups[2].pages.transform.lo ^= 1; },
        [](KvLayout& l) { l.groups[0].pages.transform.lo ^= 1; },
        [](KvLayout& l) { l.sink_tokens = 16; },
        [](KvLayout& l) { l = testing::two_group_layout(); },
    };
    for (const Edit edit : edits) {
        h.options.layout = coded_layout();
        edit(h.options.layout);
        h.open();
        const CacheExplanation why = h.cache->explain(prompt, {});
        EXPECT_EQ(why.reason, MissReason::other_model);
        EXPECT_EQ(why.holder, h.options.model);
        EXPECT_EQ(why.holder_codec, 0x4603u);
        EXPECT_EQ(why.holder_block_tokens, 16u);
        const LeaseId id = h.acquire(prompt);
        h.settle(id);
        EXPECT_EQ(h.cache->info(id).cached_tokens, 0u) << &edit - edits;
        h.cache->release(id);
    }
    h.options.layout = coded_layout();
    h.open();
    const LeaseId id = h.acquire(prompt);
    h.settle(id);
    EXPECT_EQ(h.cache->info(id).cached_tokens, 16u * 8);
    h.cache->release(id);
}

// Leases beyond what the exact slots can hold open wait for each other, and none waits for ever.
class CacheCodesOfSpans : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Spans, CacheCodesOfSpans, ::testing::Values(16, 48, 128));

TEST_P(CacheCodesOfSpans, OneLeaseAlwaysFindsRoomForAStep) {
    KvLayout layout = coded_layout();
    layout.span_tokens = GetParam();
    Harness h(60, layout);
    h.options.step_tokens = 32;
    h.options.leases_max = 1;
    h.options.g1_bytes = h.options.layout.slab_bytes(0) * (60 + GetParam() / 8);
    h.open();
    std::vector<LeaseId> open;
    const auto first = some_tokens(40, 5);
    for (int i = 0; i < 100; ++i) {
        const auto prompt = some_tokens(40, 100 + i);
        const LeaseId id = h.acquire(prompt);
        const Status grown = h.cache->grow(id, 40);
        open.push_back(id);
        if (!grown.ok()) break;
        h.cache->commit(id, 40);
    }
    ASSERT_LT(open.size(), 100u) << "exact slots never ran out";
    while (open.size() > 1) {
        h.cache->release(open.back());
        open.pop_back();
    }
    const LeaseId id = h.acquire(first);
    h.compute(id, first, {}, 32);
    h.cache->release(id);
    h.cache->release(open.front());
    h.settle_stores();
    EXPECT_EQ(h.cache->stats().pinned_blocks, 0u);
}

}  // namespace
}  // namespace quire
