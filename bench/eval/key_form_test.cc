#include "bench/eval/key_form.h"

#include <cmath>

#include <gtest/gtest.h>

#include "bench/eval/means.h"
#include "bench/eval/testing.h"

namespace quire::bench {
namespace {

TEST(KeyForms, EnergyIsWhatIsLeftOfKeysThatWereNotLearnedFrom) {
    const auto tiny = testing::tiny_evaluation();
    const std::vector<TokenId> text = testing::random_tokens(512, 5);
    QueryEnergy queries(*tiny.model);
    auto pages = pages_of(*tiny.model, text, 1, {}, &queries);
    ASSERT_TRUE(pages.ok());
    const auto forms = judge_key_forms(*tiny.model, *pages, 512, queries);
    ASSERT_EQ(forms.size(), kKeyForms.size());
    EXPECT_EQ(key_pairs_max(*tiny.model), 16u);
    for (size_t i = 0; i < forms.size(); ++i) EXPECT_EQ(forms[i].pairs, kKeyForms[i]);
    EXPECT_EQ(forms.front().energy, 1);

    // No pairs and all of them, written plainly: keys less either mean.
    const auto means = ModelMeans::learn(*tiny.model, *pages, 384);
    double after = 0, before = 0;
    for_each_head(pages->layout(), 384, 512,
                  [&](const KvPages::Rows& rows, const KvGroup& group, std::vector<float>& k,
                      std::vector<float>& v) {
                      const uint32_t layer = group.layers[rows.layer_in_group];
                      pages->read(rows, k.data(), v.data());
                      std::vector<float> turned;
                      means.rotate(layer, rows.head, 384, 512, &turned);
                      double weight = 0;
                      for (const double x : queries.of(layer, rows.head)) weight += x;
                      ASSERT_GT(weight, 0);
                      for (size_t i = 0; i < k.size(); ++i) {
                          const float constant = means.of(layer, rows.head).k[i % group.head_dim];
                          after += weight * std::pow(double{k[i]} - double{constant}, 2);
                          before += weight * std::pow(double{k[i]} - double{turned[i]}, 2);
                      }
                  });
    EXPECT_NEAR(forms.back().energy, before / after, 1e-6);
    EXPECT_LT(forms.back().energy, forms[1].energy);
}

TEST(KeyForms, TheFewestPairsNearTheBestAreChosen) {
    EXPECT_EQ(choose_key_pairs({{0, 1.0}, {4, 0.9}, {8, 0.8}}), 0u);
    EXPECT_EQ(choose_key_pairs({{0, 1.0}, {4, 0.7}, {8, 0.6}}), 4u);
    EXPECT_EQ(choose_key_pairs({{0, 1.0}, {4, 0.75}, {8, 0.5}, {16, 0.45}}), 8u);
    EXPECT_EQ(choose_key_pairs({{0, 1.0}, {4, 1.0}}), 0u);
}

}  // namespace
}  // namespace quire::bench
