// What serving with each hot codec does to the real models' answers, where they are on this
// machine: the divergence from 16 bits stays under a bound, about twice what was measured.
#include <algorithm>

#include <gtest/gtest.h>

#include "bench/eval/evaluate.h"
#include "bench/eval/served.h"
#include "bench/text.h"
#include "codec/sidecar.h"
#include "engine/model/tiny_model.h"
#include "engine/model/vocab.h"

namespace quire::bench {
namespace {

constexpr uint32_t kJudged = 384, kLearned = 384;
constexpr int32_t kThreads = 2;

struct ServedBound {
    const char* codec;
    double nats[2];  // of SmolLM2 and of Gemma
};
constexpr ServedBound kBounds[] = {
    {"k8v8", {2.5e-5, 2.5e-4}}, {"k6v6", {3.5e-4, 4e-3}}, {"k6v4", {2.5e-3, 7.5e-3}},
    {"k5v4", {2.5e-3, 0.023}},  {"k4v4", {7e-3, 0.046}},  {"k4v3", {0.012, 0.046}},
    {"k3v2", {0.075, 0.2}},
};

class ServedReal : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(Models, ServedReal, ::testing::Values(0u, 1u));

TEST_P(ServedReal, DivergesNoMoreThanItsBound) {
    const auto models = test::real_models();
    if (GetParam() >= models.size()) GTEST_SKIP() << "run tools/models fetch all first";
#if defined(QUIRE_SANITIZED)
    GTEST_SKIP() << "half an hour with a sanitizer";
#endif
    auto vocab = Vocab::open(models[GetParam()]);
    ASSERT_TRUE(vocab.ok()) << vocab.error().message;
    auto model = GgufModel::open(models[GetParam()]);
    ASSERT_TRUE(model.ok()) << model.error().message;
    auto all = (*vocab)->tokenize(whole_text(), true);
    ASSERT_TRUE(all.ok()) << all.error().message;
    const std::vector<TokenId> text(all->end() - kJudged - 1, all->end());
    all->resize(kLearned);
    auto means = ModelMeans::learn(**model, *all, kThreads);
    ASSERT_TRUE(means.ok()) << means.error().message;
    codec::Sidecar sidecar{.model = (*model)->id(),
                           .layers = codec::sidecar_layers((*model)->kv_layout(16))};
    means->store(&sidecar);
    std::vector<std::unique_ptr<Candidate>> served;
    for (const ServedBound& bound : kBounds) {
        auto made = served_candidate(**model, bound.codec + std::string(":served"),
                                     {.sidecar = &sidecar});
        ASSERT_TRUE(made.ok()) << made.error().message;
        served.push_back(std::move(made).value());
    }
    const auto rows = evaluate(**model, text, served, *means,
                               {.threads = kThreads, .tokens = kJudged, .layer_errors = false});
    ASSERT_TRUE(rows.ok()) << rows.error().message;
    for (size_t i = 0; i < served.size(); ++i) {
        const double mean = (*rows)[i].divergence.mean;
        EXPECT_GT(mean, 0) << kBounds[i].codec;
        EXPECT_LT(mean, kBounds[i].nats[GetParam()]) << kBounds[i].codec;
    }
}

}  // namespace
}  // namespace quire::bench
