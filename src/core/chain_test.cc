#include "core/chain.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace quire {
namespace {

// Golden values come from an independent program: SHA-256 and XXH3 of the byte strings that chain.h
// and chain.cc describe. A change of any of them orphans every stored block: raise the versions
// instead.
constexpr ModelId kModel{Hash128{0x0123456789abcdef, 0xfedcba9876543210}};

std::vector<TokenId> counting(size_t count) {
    std::vector<TokenId> tokens(count);
    std::iota(tokens.begin(), tokens.end(), 0);
    return tokens;
}

std::vector<TokenId> random_tokens(size_t count, std::mt19937_64& rng) {
    std::vector<TokenId> tokens(count);
    for (TokenId& t : tokens) t = static_cast<TokenId>(rng() % 50'000);
    return tokens;
}

KvLayout small_layout() {
    KvLayout layout;
    KvGroup group{.kind = KvKind::full, .layers = {}, .kv_heads = 3, .head_dim = 64};
    for (uint16_t i = 0; i < 30; ++i) group.layers.push_back(i);
    layout.groups = {group};
    return layout;
}

KvLayout window_layout() {
    KvLayout layout;
    KvGroup full{.kind = KvKind::full, .layers = {5, 11, 17}, .kv_heads = 1, .head_dim = 256};
    KvGroup window{.kind = KvKind::window, .window_tokens = 512, .kv_heads = 1, .head_dim = 256};
    for (uint16_t i = 0; i < 18; ++i)
        if (i % 6 != 5) window.layers.push_back(i);
    layout.groups = {full, window};
    return layout;
}

TEST(Chain, GoldenRoots) {
    EXPECT_EQ(chain_root(kModel, {}).value.to_hex(), "a735bd079967834f6592237aad54237f");
    EXPECT_EQ(chain_root(kModel, {"acme", "pepper"}).value.to_hex(),
              "fd5c15210c558890faef47a8f6a7cae1");
}

TEST(Chain, GoldenBlocks) {
    BlockChain chain(chain_root(kModel, {}), 16);
    chain.append(counting(50));
    ASSERT_EQ(chain.blocks().size(), 3u);
    EXPECT_EQ(chain.blocks()[0].value.to_hex(), "0c97f9c9f9bbb446a693657d5404dafc");
    EXPECT_EQ(chain.blocks()[1].value.to_hex(), "701aca3ffc240c3ab13fec1d5c5b26ab");
    EXPECT_EQ(chain.blocks()[2].value.to_hex(), "291fd9e925821b2af7d931268e2cf792");
    const std::vector<TokenId> negative(16, -1);
    EXPECT_EQ(chain_next(chain_root(kModel, {}), negative).value.to_hex(),
              "acc3e0cf854d874f674bba762b4cd030");
}

TEST(Chain, GoldenKeys) {
    const PrefixHash first = chain_next(chain_root(kModel, {}), counting(16));
    const Hash128 scope = key_scope(kModel, small_layout().digest(), 0, 1, "");
    EXPECT_EQ(scope.to_hex(), "9c59c34826bd61bd59a2c135d7490a2a");
    EXPECT_EQ(block_key(scope, first).value.to_hex(), "9f742cc2a79a14ee11ebc230a05ace57");
    const Hash128 other = key_scope(kModel, window_layout().digest(), 1, 1, "acme");
    EXPECT_EQ(other.to_hex(), "44e71a58409eb511de0c1b3f4d42a97f");
    EXPECT_EQ(block_key(other, first).value.to_hex(), "a93a339bd9a2375025094adfd44ae70d");
}

TEST(Chain, TenantAndSaltNeverShareARoot) {
    std::set<PrefixHash> roots;
    const Namespace spaces[] = {{"", ""},    {"a", ""},   {"", "a"},   {"ab", "c"},
                                {"a", "bc"}, {"abc", ""}, {"", "abc"}, {"a", "a"}};
    for (const Namespace& ns : spaces) roots.insert(chain_root(kModel, ns));
    roots.insert(chain_root(ModelId{Hash128{1, 2}}, {}));
    EXPECT_EQ(roots.size(), std::size(spaces) + 1);
}

TEST(Chain, EveryPartOfTheScopeMatters) {
    const KvLayout layout = small_layout();
    KvLayout wider = layout;
    wider.block_tokens = 32;
    const std::set<Hash128> scopes = {
        key_scope(kModel, layout.digest(), 0, 1, ""),
        key_scope(ModelId{}, layout.digest(), 0, 1, ""),
        key_scope(kModel, wider.digest(), 0, 1, ""),
        key_scope(kModel, layout.digest(), 1, 1, ""),
        key_scope(kModel, layout.digest(), 0, 2, ""),
        key_scope(kModel, layout.digest(), 0, 1, "t"),
    };
    EXPECT_EQ(scopes.size(), 6u);
}

TEST(Chain, AppendingInAnyPiecesGivesTheSameChain) {
    for (uint64_t seed = 0; seed < 100; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937_64 rng(seed);
        const auto block_tokens = static_cast<uint32_t>(16 * (1 + rng() % 4));
        const auto tokens = random_tokens(rng() % 700, rng);
        BlockChain whole(chain_root(kModel, {}), block_tokens);
        whole.append(tokens);
        BlockChain pieces(chain_root(kModel, {}), block_tokens);
        for (size_t at = 0; at < tokens.size();) {
            const size_t size = std::min<size_t>(rng() % 50, tokens.size() - at);
            pieces.append(TokenSpan(tokens).subspan(at, size));
            at += size;
        }
        ASSERT_EQ(whole.blocks().size(), tokens.size() / block_tokens);
        ASSERT_TRUE(std::ranges::equal(whole.blocks(), pieces.blocks()));
        ASSERT_TRUE(std::ranges::equal(pieces.tokens(), tokens));
        PrefixHash parent = whole.root();
        for (size_t i = 0; i < whole.blocks().size(); ++i) {
            ASSERT_EQ(whole.parent(i), parent);
            parent = chain_next(parent, whole.block(i));
            ASSERT_EQ(whole.blocks()[i], parent);
        }
    }
}

TEST(Chain, AChangedTokenChangesItsBlockAndAllAfterIt) {
    std::mt19937_64 rng(3);
    const auto tokens = random_tokens(160, rng);
    BlockChain before(chain_root(kModel, {}), 16);
    before.append(tokens);
    for (size_t changed = 0; changed < tokens.size(); ++changed) {
        auto edited = tokens;
        edited[changed] ^= 1;
        BlockChain after(chain_root(kModel, {}), 16);
        after.append(edited);
        for (size_t i = 0; i < 10; ++i)
            ASSERT_EQ(before.blocks()[i] == after.blocks()[i], i < changed / 16)
                << "seed 3, token " << changed << ", block " << i;
    }
}

TEST(ChainDeathTest, BlockSizesNoLayoutAllowsAreOurBug) {
    EXPECT_DEATH(BlockChain(PrefixHash{}, 0), "block_tokens");
    EXPECT_DEATH(BlockChain(PrefixHash{}, 257), "block_tokens");
}

TEST(Hash128, HexIsHighWordFirst) {
    EXPECT_EQ((Hash128{0x0123456789abcdef, 0xf}).to_hex(), "0123456789abcdef000000000000000f");
    EXPECT_TRUE(Hash128{}.is_zero());
    EXPECT_FALSE((Hash128{0, 1}).is_zero());
}

}  // namespace
}  // namespace quire
