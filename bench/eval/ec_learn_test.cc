#include "bench/eval/ec_learn.h"

#include <gtest/gtest.h>

#include "bench/eval/kv_pages.h"
#include "bench/eval/testing.h"
#include "codec/ec/block.h"

namespace quire::bench {
namespace {

// Layers 0 to 4, 6 and 7 have a window, layer 5 has none.
constexpr uint32_t kFullLayer = 5;
constexpr size_t kTokens = 320;

TEST(LearnEc, ForetellsALayerFromItsOwnChainOnly) {
    const test::TinySpec spec{.family = "gemma3", .n_layers = 8, .n_kv_heads = 1};
    auto model = GgufModel::open(test::write_tiny_model(spec).path);
    ASSERT_TRUE(model.ok()) << model.error().message;
    QueryEnergy queries(**model);
    auto pages = pages_of(**model, testing::random_tokens(kTokens, 31), 1, {}, &queries);
    ASSERT_TRUE(pages.ok()) << pages.error().message;
    const ModelMeans means = ModelMeans::learn(**model, *pages, kTokens);
    codec::Sidecar sidecar{.model = (*model)->id(),
                           .layers = codec::sidecar_layers((*model)->kv_layout(16))};
    means.store(&sidecar);
    codec::ec::Model learned =
        learn_ec(*pages, kTokens, means, metrics_of(**model, queries), sidecar, 2.5);
    // The only one of its chain: nothing but its own earlier heads foretells it.
    const size_t dims = static_cast<size_t>(spec.head_dim);
    for (size_t head = 0; head < learned.k[kFullLayer].size(); ++head)
        EXPECT_LE(learned.k[kFullLayer][head].weights.size(), head * dims * dims);
    // The layer behind it in the model is foretold from the window's one before it.
    EXPECT_GT(learned.k[kFullLayer + 1][0].weights.size(), 0u);
    learned.store(&sidecar);
    const auto read = codec::ec::Model::of(sidecar);
    ASSERT_TRUE(read.ok()) << read.error().message;
    const auto chains = codec::ec::chains_of(sidecar.layers);
    ASSERT_EQ(chains.size(), 2u);
    for (const std::vector<uint16_t>& chain : chains) {
        const auto coder = codec::ec::BlockCoder::create(*read, chain, 2.5);
        EXPECT_TRUE(coder.ok()) << coder.error().message;
    }
}

}  // namespace
}  // namespace quire::bench
