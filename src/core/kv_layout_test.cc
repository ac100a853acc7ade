#include "core/kv_layout.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/tier.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

KvGroup group_of(uint32_t kv_heads, uint32_t head_dim, std::vector<uint16_t> layers) {
    return {.kind = KvKind::full,
            .layers = std::move(layers),
            .kv_heads = kv_heads,
            .head_dim = head_dim};
}

KvLayout two_groups() {
    KvLayout layout;
    KvGroup window = group_of(1, 256, {0, 1, 2, 3, 4});
    window.kind = KvKind::window;
    window.window_tokens = 512;
    layout.groups = {group_of(1, 256, {5}), window};
    return layout;
}

TEST(KvLayout, SizesFollowFromTheFields) {
    KvLayout layout;
    std::vector<uint16_t> layers(30);
    for (uint16_t i = 0; i < 30; ++i) layers[i] = i;
    layout.groups = {group_of(3, 64, layers)};
    ASSERT_TRUE(layout.validate().ok());
    EXPECT_EQ(layout.page_bytes(0), 2u * 16 * 64 * 2);
    EXPECT_EQ(layout.layer_bytes(0), 3u * 4096);
    EXPECT_EQ(layout.payload_bytes(0), 30u * 12288);
    EXPECT_EQ(layout.layer_offset(0, 0), kSlabHeaderBytes);
    EXPECT_EQ(layout.layer_offset(0, 29), kSlabHeaderBytes + 29 * 12288);
    EXPECT_EQ(layout.slab_bytes(0), kSlabHeaderBytes + 30 * 12288);
    EXPECT_EQ(layout.bytes_per_token(), 30u * 3 * 64 * 2 * 2);
}

TEST(KvLayout, SlabsArePaddedToTheirAlignment) {
    KvLayout layout;
    layout.groups = {group_of(1, 16, {0})};
    EXPECT_EQ(layout.payload_bytes(0), 1024u);
    EXPECT_EQ(layout.slab_bytes(0), kSlabHeaderBytes + 4096);
    EXPECT_EQ(two_groups().bytes_per_token(), 6u * 256 * 2 * 2);
}

TEST(KvLayout, PagesTileTheSlabWithoutOverlap) {
    const KvLayout layout = two_groups();
    for (size_t g = 0; g < layout.groups.size(); ++g) {
        size_t end = kSlabHeaderBytes;
        for (size_t i = 0; i < layout.groups[g].layers.size(); ++i) {
            EXPECT_EQ(layout.layer_offset(g, i), end);
            end += layout.groups[g].kv_heads * layout.page_bytes(g);
        }
        EXPECT_LE(end, layout.slab_bytes(g));
        EXPECT_LT(layout.slab_bytes(g) - end, kSlabAlign);
    }
}

TEST(KvLayout, GoldenDigests) {
    KvLayout layout;
    std::vector<uint16_t> layers(30);
    for (uint16_t i = 0; i < 30; ++i) layers[i] = i;
    layout.groups = {group_of(3, 64, layers)};
    EXPECT_EQ(layout.digest().to_hex(), "8d357c8805c75d7c669ba0146819af86");
    KvLayout mixed = two_groups();
    mixed.groups[0].layers = {5, 11, 17};
    mixed.groups[1].layers.clear();
    for (uint16_t i = 0; i < 18; ++i)
        if (i % 6 != 5) mixed.groups[1].layers.push_back(i);
    EXPECT_EQ(mixed.digest().to_hex(), "9b69750f3bfe2e16f42fa980c9300a8d");
}

TEST(KvLayout, EveryFieldChangesTheDigest) {
    using Edit = void (*)(KvLayout&);
    const Edit edits[] = {
        [](KvLayout&) {},
        [](KvLayout& l) { l.block_tokens = 32; },
        [](KvLayout& l) { l.element = Element::bf16; },
        [](KvLayout& l) { l.groups[0].kv_heads = 2; },
        [](KvLayout& l) { l.groups[0].head_dim = 128; },
        [](KvLayout& l) { l.groups[0].layers = {6}; },
        [](KvLayout& l) { l.groups[0].layers = {5, 6}; },
        [](KvLayout& l) { l.groups[1].window_tokens = 511; },
        [](KvLayout& l) { l.groups[1].kind = KvKind::mla; },
        [](KvLayout& l) { l.groups.pop_back(); },
        [](KvLayout& l) { std::swap(l.groups[0], l.groups[1]); },
    };
    std::set<Hash128> digests;
    for (const Edit edit : edits) {
        KvLayout layout = two_groups();
        edit(layout);
        digests.insert(layout.digest());
    }
    EXPECT_EQ(digests.size(), std::size(edits));
}

KvLayout coded(uint32_t sink_tokens = 32) {
    const KvPages pages = {.codec = 7, .version = 1, .bytes = 4160, .transform = {1, 2}};
    return split_for_codes(two_groups(), sink_tokens,
                           {{0, {5}, pages}, {1, {0, 1, 2, 3, 4}, pages}}, {3, 4});
}

TEST(KvLayout, WithCodesEveryGroupIsSplitInTwo) {
    const KvLayout layout = coded();
    ASSERT_TRUE(layout.validate().ok());
    ASSERT_EQ(layout.groups.size(), 4u);
    EXPECT_FALSE(two_groups().coded());
    EXPECT_TRUE(layout.coded());
    EXPECT_EQ(layout.page_bytes(0), two_groups().page_bytes(0));
    EXPECT_EQ(layout.page_bytes(2), 4160u);
    EXPECT_EQ(layout.layer_offset(3, 2), kSlabHeaderBytes + 2 * 4160);
    EXPECT_EQ(layout.bytes_per_token(), 6u * 4160 / 16);
    // Two sinks and an open block exact, one block as codes; the windows see all of it.
    EXPECT_EQ(layout.sequence_bytes(60), 6u * (3 * 16384 + 4160));
    EXPECT_EQ(two_groups().sequence_bytes(60), 6u * 4 * 16384);
    EXPECT_EQ(layout.sequence_bytes(0), 0u);
}

// Layers 2 and 4 of the second group are not coded.
KvLayout partly_coded() {
    const KvPages pages = {.codec = 7, .version = 1, .bytes = 4160, .transform = {1, 2}};
    return split_for_codes(two_groups(), 32, {{0, {5}, pages}, {1, {0, 1, 3}, pages}}, {3, 4});
}

TEST(KvLayout, LayersWithoutCodesKeepAll) {
    const KvLayout layout = partly_coded();
    ASSERT_TRUE(layout.validate().ok());
    ASSERT_EQ(layout.groups.size(), 5u);
    EXPECT_EQ(layout.groups[1].layers, (std::vector<uint16_t>{0, 1, 3}));
    EXPECT_EQ(layout.groups[2].layers, (std::vector<uint16_t>{2, 4}));
    EXPECT_EQ(layout.groups[2].keep, KvKeep::all);
    EXPECT_EQ(layout.groups[2].pages, KvPages{});
    EXPECT_EQ(layout.groups[2].kind, two_groups().groups[1].kind);
    EXPECT_EQ(layout.bytes_per_token(), (4u * 4160 + 2 * 16384) / 16);
    EXPECT_NE(layout.digest(), coded().digest());
}

// By the definition: which keys a query sees, which of them are sinks, which in its own block.
TEST(KvLayout, NeededBlocksHoldWhatAQueryReads) {
    for (const KvLayout& layout : {two_groups(), coded(32), coded(0), partly_coded()}) {
        for (size_t g = 0; g < layout.groups.size(); ++g) {
            const KvGroup& group = layout.groups[g];
            for (uint32_t position = 0; position < 700; ++position) {
                std::set<uint32_t> want;
                for (uint32_t key = 0; key < position / 16 * 16; ++key) {
                    if (group.kind == KvKind::window && key + group.window_tokens <= position)
                        continue;
                    if (group.keep == KvKeep::sinks && key >= layout.sink_tokens) continue;
                    if (group.keep == KvKeep::rest && key < layout.sink_tokens) continue;
                    want.insert(key / 16);
                }
                const BlockRange needed = layout.needed_blocks(g, position);
                ASSERT_EQ(needed.count(), want.size()) << "group " << g << " at " << position;
                for (const uint32_t b : want) ASSERT_TRUE(needed.has(b));
            }
        }
    }
}

// By the definition: a prefix that can be taken leaves nothing exact to be read but sinks.
TEST(KvLayout, APrefixOfWholeSpansLacksNoExactPage) {
    for (const uint32_t span_blocks : {1, 2, 3, 8}) {
        for (const uint32_t sinks : {0, 2, 5}) {
            KvLayout layout = coded(sinks * 16);
            layout.span_tokens = span_blocks * 16;
            ASSERT_TRUE(layout.validate().ok());
            for (uint32_t n = 0; n < 40; ++n) {
                const uint32_t span = n / span_blocks * span_blocks;
                EXPECT_EQ(layout.can_end(n), n == span || n <= sinks) << n;
                for (uint32_t position = n * 16; position < n * 16 + 16; ++position)
                    ASSERT_EQ(layout.open_block(position), span);
            }
        }
    }
    KvLayout layout = coded(32);
    layout.span_tokens = 64;
    // Position 149 is in block 9, and the span of blocks 8 to 11: two of it, and two sinks.
    EXPECT_EQ(layout.sequence_bytes(150), coded(32).sequence_bytes(150) + 6u * 16384);
    // In block 3, of the first span: two sinks are in it already.
    EXPECT_EQ(layout.sequence_bytes(60), 6u * (4 * 16384 + 4160));
    layout.span_tokens = 24;
    EXPECT_EQ(layout.validate().code(), Code::invalid);
    layout.span_tokens = kMaxSpanTokens + 16;
    EXPECT_EQ(layout.validate().code(), Code::invalid);
}

TEST(KvLayout, WhateverIsSaidOfCodesChangesTheDigest) {
    using Edit = void (*)(KvLayout&);
    const Edit edits[] = {
        [](KvLayout&) {},
        [](KvLayout& l) { l = two_groups(); },
        [](KvLayout& l) { l.sink_tokens = 16; },
        [](KvLayout& l) { l.span_tokens = 32; },
        [](KvLayout& l) { l.span_tokens = 48; },
        [](KvLayout& l) { l.groups[2].pages.codec = 8; },
        [](KvLayout& l) { l.groups[2].pages.version = 2; },
        [](KvLayout& l) { l.groups[2].pages.bytes = 4192; },
        [](KvLayout& l) { l.groups[2].pages.transform.hi = 9; },
        [](KvLayout& l) { l.groups[2].pages.transform.lo = 9; },
        [](KvLayout& l) { l.groups[0].pages.transform.lo = 9; },
        [](KvLayout& l) { l.groups[3].pages.codec = 8; },
        [](KvLayout& l) { std::swap(l.groups[0].keep, l.groups[2].keep); },
    };
    std::set<Hash128> digests;
    for (const Edit edit : edits) {
        KvLayout layout = coded();
        edit(layout);
        digests.insert(layout.digest());
    }
    EXPECT_EQ(digests.size(), std::size(edits));
}

TEST(KvLayout, HalfALayoutWithCodesIsRefused) {
    KvLayout layout = coded();
    layout.groups.resize(2);
    EXPECT_EQ(layout.validate().code(), Code::invalid);
    layout = coded();
    layout.groups[1].keep = KvKeep::all;
    EXPECT_EQ(layout.validate().code(), Code::invalid);
    layout = partly_coded();
    layout.groups[2].layers.push_back(5);
    EXPECT_EQ(layout.validate().code(), Code::invalid);
    EXPECT_EQ(coded(24).validate().code(), Code::invalid);
    EXPECT_EQ(coded(1 << 20).validate().code(), Code::invalid);
}

TEST(KvLayout, BadLayoutsAreRefusedByName) {
    struct Case {
        void (*edit)(KvLayout&);
        Code code;
        const char* named;
    };
    const Case cases[] = {
        {[](KvLayout& l) { l.block_tokens = 0; }, Code::invalid, "block_tokens"},
        {[](KvLayout& l) { l.block_tokens = 24; }, Code::invalid, "24"},
        {[](KvLayout& l) { l.block_tokens = 272; }, Code::invalid, "272"},
        {[](KvLayout& l) { l.groups.clear(); }, Code::invalid, "groups"},
        {[](KvLayout& l) { l.groups.resize(kMaxGroups + 1); }, Code::invalid, "not 9"},
        {[](KvLayout& l) { l.groups[0].kind = KvKind::recurrent; }, Code::unsupported, "kind 4"},
        {[](KvLayout& l) { l.groups[0].window_tokens = 1; }, Code::invalid, "window_tokens"},
        {[](KvLayout& l) { l.groups[1].window_tokens = 0; }, Code::invalid, "window_tokens"},
        {[](KvLayout& l) { l.groups[0].layers.clear(); }, Code::invalid, "layers"},
        {[](KvLayout& l) { l.groups[0].layers.resize(257); }, Code::invalid, "257"},
        {[](KvLayout& l) { l.groups[0].layers = {9, 7}; }, Code::invalid, "ascending"},
        {[](KvLayout& l) { l.groups[0].layers = {7, 7}; }, Code::invalid, "layer 7"},
        {[](KvLayout& l) { l.groups[0].layers = {3}; }, Code::invalid, "layer 3"},
        {[](KvLayout& l) { l.groups[0].kv_heads = 0; }, Code::invalid, "kv_heads"},
        {[](KvLayout& l) { l.groups[0].kv_heads = 1025; }, Code::invalid, "1025"},
        {[](KvLayout& l) { l.groups[0].head_dim = 0; }, Code::unsupported, "head_dim"},
        {[](KvLayout& l) { l.groups[0].head_dim = 72; }, Code::unsupported, "72"},
        {[](KvLayout& l) { l.groups[0].head_dim = 2048; }, Code::unsupported, "2048"},
        {[](KvLayout& l) {
             l.block_tokens = 256;
             l.groups[0].kv_heads = 1024;
             l.groups[0].head_dim = 1024;
             l.groups[0].layers = {5, 6};
         },
         Code::invalid, "block_tokens"},
    };
    for (const Case& c : cases) {
        SCOPED_TRACE(c.named);
        KvLayout layout = two_groups();
        ASSERT_TRUE(layout.validate().ok());
        c.edit(layout);
        const Status status = layout.validate();
        ASSERT_EQ(status.code(), c.code);
        EXPECT_THAT(status.error().message, HasSubstr(c.named));
    }
}

TEST(TierSet, HoldsEachTierByItself) {
    TierSet set;
    EXPECT_TRUE(set.empty());
    for (int i = 0; i < kTierCount; ++i) {
        const auto tier = static_cast<Tier>(i);
        EXPECT_FALSE(set.has(tier));
        set.add(tier);
        EXPECT_TRUE(set.has(tier)) << tier_name(tier);
    }
    set.remove(Tier::g3);
    EXPECT_FALSE(set.has(Tier::g3));
    EXPECT_TRUE(set.has(Tier::g2));
    EXPECT_TRUE(set.has(Tier::g35));
}

}  // namespace
}  // namespace quire
