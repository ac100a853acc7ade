#include "engine/model/mean_sums.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <ggml.h>
#include <gtest/gtest.h>

#include "engine/model/forward.h"
#include "engine/model/tiny_model.h"

namespace quire {
namespace {

using test::PlainPages;

constexpr int32_t kPageTokens = 128;

std::vector<TokenId> tokens_for_means(size_t n, uint32_t seed) {
    std::mt19937 rng(seed);
    std::vector<TokenId> tokens(n);
    for (TokenId& t : tokens) t = static_cast<TokenId>(rng() % 80);
    return tokens;
}

class MeanSumsTest : public testing::TestWithParam<const char*> {
 protected:
    void SetUp() override {
        test::TinySpec spec;
        spec.family = GetParam();
        if (spec.family == "gemma3") spec.n_layers = 8;
        spec.matrix_type = GGML_TYPE_Q8_0;
        auto model = GgufModel::open(test::write_tiny_model(spec).path);
        ASSERT_TRUE(model.ok()) << model.error().message;
        model_ = std::move(model).value();
    }

    std::unique_ptr<Forward> forward(KvObserver* observer, int32_t threads,
                                     const char* codec = "") const {
        const KvLayout plain = model_->kv_layout(kCodedBlockTokens);
        auto f = Forward::create(*model_, {.n_threads = threads,
                                           .block_tokens = kCodedBlockTokens,
                                           .coding = find_kv_coding(codec, 64, plain).value(),
                                           .observer = observer});
        EXPECT_TRUE(f.ok()) << f.error().message;
        return std::move(f).value();
    }

    codec::Sidecar means_of(const MeanSums& sums) const {
        codec::Sidecar sidecar{.model = model_->id(),
                               .layers = codec::sidecar_layers(model_->kv_layout(16))};
        sums.store(&sidecar);
        EXPECT_TRUE(codec::check_sidecar(sidecar).ok());
        return sidecar;
    }

    std::unique_ptr<GgufModel> model_;
};

void expect_near(const std::vector<float>& a, const std::vector<float>& b, float within) {
    ASSERT_EQ(a.size(), b.size());
    ASSERT_FALSE(a.empty());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], within) << i;
}

// Against the rows that the kernels stored: those of the tokens that were wanted, and no others.
TEST_P(MeanSumsTest, AreTheMeansOfTheFirstTokensInPages) {
    MeanSums sums(*model_, 3);
    auto f = forward(&sums, 3);
    const auto one = tokens_for_means(60, 1), two = tokens_for_means(40, 2);
    PlainPages first(f->layout(), kPageTokens), second(f->layout(), kPageTokens);
    const std::vector<StepSequence> step = {first.sequence(one, 0, 1), second.sequence(two, 0, 1)};
    EXPECT_EQ(sums.arm(step, 50), 50u);  // 44 of the first sequence, 6 of the second
    ASSERT_TRUE(f->step(step).ok());
    EXPECT_EQ(sums.arm({}, 50), 0u);
    const auto more = tokens_for_means(20, 3);
    const StepSequence unseen = first.sequence(more, 60, 1);
    ASSERT_TRUE(f->step({&unseen, 1}).ok());

    const codec::Sidecar got = means_of(sums);
    const KvLayout& layout = f->layout();
    for (size_t g = 0; g < layout.groups.size(); ++g)
        for (size_t l = 0; l < layout.groups[g].layers.size(); ++l)
            for (int32_t head = 0; head < 2; ++head)
                for (int32_t d = 0; d < 32; ++d) {
                    double k = 0, v = 0;
                    for (int32_t p = 16; p < 60; ++p) {
                        k += static_cast<double>(first.k(g, l, head, p, d));
                        v += static_cast<double>(first.v(g, l, head, p, d));
                    }
                    for (int32_t p = 16; p < 22; ++p) {
                        k += static_cast<double>(second.k(g, l, head, p, d));
                        v += static_cast<double>(second.v(g, l, head, p, d));
                    }
                    const size_t at = codec::vector_offset(got, layout.groups[g].layers[l],
                                                           static_cast<uint32_t>(head)) +
                                      static_cast<size_t>(d);
                    ASSERT_NEAR(got.k_mean[at], k / 50, 2e-3);
                    ASSERT_NEAR(got.v_mean[at], v / 50, 2e-3);
                }
}

TEST_P(MeanSumsTest, DoNotDependOnStepsOrThreads) {
    const auto tokens = tokens_for_means(100, 4);
    const auto seen_by = [&](int32_t threads, size_t step_tokens) {
        MeanSums sums(*model_, threads);
        auto f = forward(&sums, threads);
        PlainPages pages(f->layout(), kPageTokens);
        for (size_t at = 0; at < tokens.size(); at += step_tokens) {
            const TokenSpan some =
                TokenSpan(tokens).subspan(at, std::min(step_tokens, tokens.size() - at));
            const StepSequence s = pages.sequence(some, static_cast<int32_t>(at), 1);
            sums.arm({&s, 1}, 1000);
            EXPECT_TRUE(f->step({&s, 1}).ok());
        }
        return means_of(sums);
    };
    const codec::Sidecar whole = seen_by(1, 100), cut = seen_by(3, 7);
    expect_near(whole.k_mean, cut.k_mean, 1e-5f);
    expect_near(whole.k_mean_before, cut.k_mean_before, 1e-5f);
    expect_near(whole.v_mean, cut.v_mean, 1e-5f);
}

TEST_P(MeanSumsTest, SeeingChangesNoBit) {
    const auto tokens = tokens_for_means(120, 5);
    const auto computed = [&](MeanSums* sums) {
        auto f = forward(sums, 2, "k6v4");
        PlainPages pages(f->layout(), kPageTokens);
        std::vector<float> logits;
        for (size_t at = 0; at < tokens.size(); at += 40) {
            const StepSequence s =
                pages.sequence(TokenSpan(tokens).subspan(at, 40), static_cast<int32_t>(at), 40);
            if (sums != nullptr) sums->arm({&s, 1}, 60);
            if (sums != nullptr && at == 80) sums->clear();
            const auto done = f->step({&s, 1});
            EXPECT_TRUE(done.ok());
            logits.insert(logits.end(), done->logits.begin(), done->logits.end());
        }
        return std::pair(logits, pages.bytes());
    };
    MeanSums sums(*model_, 2);
    EXPECT_EQ(computed(&sums), computed(nullptr));
}

INSTANTIATE_TEST_SUITE_P(Families, MeanSumsTest, testing::Values("llama", "qwen3", "gemma3"));

}  // namespace
}  // namespace quire
