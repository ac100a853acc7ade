// What a server learns from the tokens that it computes are the means that `quire calibrate` learns
// from the same tokens.
#include "bench/eval/means.h"

#include <gtest/gtest.h>

#include "bench/eval/testing.h"
#include "engine/model/forward.h"
#include "engine/model/mean_sums.h"

namespace quire::bench {
namespace {

TEST(ModelMeans, AreThoseThatAServerLearns) {
    const auto tiny = testing::tiny_evaluation();
    const std::vector<TokenId> text = testing::random_tokens(300, 12);
    codec::Sidecar calibrated{.model = tiny.model->id(),
                              .layers = codec::sidecar_layers(tiny.model->kv_layout(16))};
    codec::Sidecar served = calibrated;
    auto means = ModelMeans::learn(*tiny.model, text, 1);
    ASSERT_TRUE(means.ok()) << means.error().message;
    means->store(&calibrated);

    MeanSums sums(*tiny.model, 2);
    auto forward = Forward::create(*tiny.model, {.n_threads = 2, .observer = &sums});
    ASSERT_TRUE(forward.ok());
    auto pages = KvPages::create((*forward)->layout(), 300);
    ASSERT_TRUE(pages.ok());
    const StepSequence s = pages->sequence(text, 0, 1);
    EXPECT_EQ(sums.arm({&s, 1}, 4096), text.size() - kSinkTokens);
    ASSERT_TRUE((*forward)->step({&s, 1}).ok());
    sums.store(&served);

    // Calibration reads pages of 16 bit.
    const auto expect_near = [](const std::vector<float>& a, const std::vector<float>& b) {
        ASSERT_EQ(a.size(), b.size());
        for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-3) << i;
    };
    expect_near(served.k_mean, calibrated.k_mean);
    expect_near(served.k_mean_before, calibrated.k_mean_before);
    expect_near(served.v_mean, calibrated.v_mean);
}

}  // namespace
}  // namespace quire::bench
