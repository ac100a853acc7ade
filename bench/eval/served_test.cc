#include "bench/eval/served.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "bench/eval/coded_sequence.h"
#include "bench/eval/ec_candidate.h"
#include "bench/eval/ec_learn.h"
#include "bench/eval/evaluate.h"
#include "bench/eval/metric.h"
#include "bench/eval/testing.h"
#include "codec/sidecar.h"

namespace quire::bench {
namespace {

constexpr uint32_t kTokens = 320;

// A model of one chain of layers, and what calibration learns of it.
class ServedCaches : public ::testing::Test {
 protected:
    void SetUp() override {
        const test::TinySpec spec{.n_layers = 4, .n_kv_heads = 1};
        auto model = GgufModel::open(test::write_tiny_model(spec).path);
        ASSERT_TRUE(model.ok()) << model.error().message;
        model_ = std::move(model).value();
        QueryEnergy queries(*model_);
        auto pages = pages_of(*model_, testing::random_tokens(kTokens, 31), 1, {}, &queries);
        ASSERT_TRUE(pages.ok()) << pages.error().message;
        means_ = std::make_unique<ModelMeans>(ModelMeans::learn(*model_, *pages, kTokens));
        sidecar_ = {.model = model_->id(),
                    .layers = codec::sidecar_layers(model_->kv_layout(16))};
        means_->store(&sidecar_);
        for (size_t l = 0; l < sidecar_.layers.size(); ++l)
            sidecar_.bits.push_back({static_cast<uint8_t>(4 + l), 3});
        learn_ec(*pages, kTokens, *means_, metrics_of(*model_, queries), sidecar_, 2.5)
            .store(&sidecar_);
        auto forward = span_forward(*model_, 1);
        ASSERT_TRUE(forward.ok());
        forward_ = std::move(forward).value();
    }

    std::unique_ptr<Candidate> make(const std::string& name, std::vector<uint32_t> skip = {}) {
        auto made = served_candidate(*model_, name, {.sidecar = &sidecar_, .skip_layers = skip});
        EXPECT_TRUE(made.ok()) << made.error().message;
        return std::move(made).value();
    }
    // Logits of the last 100 tokens.
    std::vector<float> logits(const Candidate* candidate) {
        auto sequence =
            CodedSequence::create(forward_.get(), candidate, means_.get(), kTokens);
        EXPECT_TRUE(sequence.ok());
        std::vector<float> all;
        const auto keep = [&](uint32_t, std::span<const float> row) {
            all.insert(all.end(), row.begin(), row.end());
            return true;
        };
        EXPECT_TRUE(sequence->run(text_, 0, 100, keep).ok());
        return all;
    }
    // What the engine gives in one step, with this coding.
    std::vector<float> by_engine(const KvCoding& coding) {
        auto f = Forward::create(*model_, {.n_threads = 1,
                                           .block_tokens = kCodedBlockTokens,
                                           .coding = coding,
                                           .max_logit_rows = 100});
        EXPECT_TRUE(f.ok());
        test::PlainPages pages((*f)->layout(), kTokens);
        const StepSequence s = pages.sequence(text_, 0, 100);
        const auto done = (*f)->step({&s, 1});
        EXPECT_TRUE(done.ok());
        return {done->logits.begin(), done->logits.end()};
    }

    std::unique_ptr<GgufModel> model_;
    std::unique_ptr<ModelMeans> means_;
    codec::Sidecar sidecar_;
    std::unique_ptr<Forward> forward_;
    const std::vector<TokenId> text_ = testing::random_tokens(kTokens, 7);
};

TEST(ServedNames, SayWhatTheServerIsTold) {
    EXPECT_EQ(served_name("k6v4:served")->codec, "k6v4");
    EXPECT_EQ(served_name("k6v4:served")->packing, "");
    for (const char* both : {"k6v4+ec:2.7", "k6v4:served+ec:2.7"}) {
        EXPECT_EQ(served_name(both)->codec, "k6v4");
        EXPECT_EQ(served_name(both)->packing, "ec:2.7");
    }
    for (const char* other : {"k6v4", "k6v4:post", "ec:1.5+2", "ec:2.7", "sidecar", "q8_0"})
        EXPECT_FALSE(served_name(other).has_value()) << other;
}

// The coding as engine_lane.cc makes it of --kv-codec, --kv-sidecar and --kv-skip-layers.
TEST_F(ServedCaches, GiveTheBitsOfTheEngine) {
    const KvLayout plain = model_->kv_layout(kCodedBlockTokens);
    const std::vector<float> exact = logits(nullptr);
    for (const char* codec : {"k4v3", "schedule"}) {
        for (const std::vector<uint32_t>& skip : {std::vector<uint32_t>{}, {0, 2}}) {
            auto coding = find_kv_coding(codec, quire::kSinkTokens, plain);
            ASSERT_TRUE(coding.ok());
            ASSERT_TRUE(keep_exact(&*coding, skip, plain).ok());
            const Hash128 hash = codec::sidecar_file(sidecar_).hash;
            ASSERT_TRUE(take_sidecar(&*coding, {sidecar_, hash}, plain).ok());
            add_turns(&*coding, model_->hparams().family->rope, model_->hparams().rope_dim);
            ASSERT_NE(coding->turns, nullptr);
            const auto served = make(std::string(codec) + ":served", skip);
            EXPECT_EQ(served->name(), std::string(codec) + ":served" +
                                          (skip.empty() ? "" : ", layers 0+2 exact"));
            const std::vector<float> got = logits(served.get());
            EXPECT_EQ(got, by_engine(*coding));
            EXPECT_NE(got, exact);
        }
    }
    EXPECT_NEAR(make("k4v3:served")->bits(32), 3.5 + 8.0 / 32, 1e-9);
    EXPECT_NEAR(make("k4v3:served", {0, 2})->bits(32), (3.5 + 8.0 / 32 + 16) / 2, 1e-9);
}

TEST_F(ServedCaches, GoToDiskAndComeBack) {
    const auto plain = make("k8v8:served");
    const auto fine = make("k8v8+ec:4"), coarse = make("k8v8+ec:1.5");
    EXPECT_EQ(fine->name(), "k8v8+ec:4");
    const std::vector<float> want = logits(plain.get());
    const auto distance = [&](const Candidate& one) {
        const std::vector<float> got = logits(&one);
        double sum = 0;
        for (size_t i = 0; i < got.size(); ++i)
            sum += double{got[i] - want[i]} * double{got[i] - want[i]};
        return sum;
    };
    const double little = distance(*fine), much = distance(*coarse);
    EXPECT_GT(little, 0);
    EXPECT_GT(much, 2 * little);
    EXPECT_LT(coarse->bits(32), fine->bits(32));
    EXPECT_LT(fine->bits(32), plain->bits(32));
}

TEST_F(ServedCaches, AreRowsOfAnEvaluationWithTheirOwnExactTokens) {
    std::vector<std::unique_ptr<Candidate>> candidates;
    candidates.push_back(codec_candidate("k8v8").value());
    candidates.push_back(make("k8v8:served"));
    candidates.push_back(make("k2v2:served"));
    const auto text = testing::random_tokens(kTokens + 1, 7);
    EvalOptions options{.threads = 1, .tokens = kTokens, .layer_errors = true};
    const auto rows = evaluate(*model_, text, candidates, *means_, options);
    ASSERT_TRUE(rows.ok()) << rows.error().message;
    EXPECT_EQ((*rows)[0].exact, ExactTokens{});
    EXPECT_EQ((*rows)[1].exact, (ExactTokens{64, 64}));
    const double exact = 64 + 32;
    EXPECT_NEAR((*rows)[1].total_bits,
                ((*rows)[1].bits * (kTokens - exact) + 16 * exact) / kTokens, 1e-9);
    EXPECT_GT((*rows)[1].divergence.mean, 0);
    EXPECT_LT((*rows)[1].divergence.mean * 20, (*rows)[2].divergence.mean);
    EXPECT_LT((*rows)[1].layer_errors[1] * 10, (*rows)[2].layer_errors[1]);
}

TEST_F(ServedCaches, RefuseByTheRowsName) {
    const auto refused = [&](const std::string& name, const ServedOptions& options) {
        const auto bad = served_candidate(*model_, name, options);
        return bad.ok() ? "" : bad.error().message;
    };
    EXPECT_TRUE(refused("k9v9:served", {}).starts_with("k9v9:served: there is no codec 'k9v9'"));
    EXPECT_TRUE(refused("nvfp4:served", {}).starts_with("nvfp4:served: attention cannot read"));
    EXPECT_NE(refused("schedule:served", {}).find("--sidecar FILE"), std::string::npos);
    EXPECT_NE(refused("k6v4+ec:2.7", {}).find("--sidecar FILE"), std::string::npos);
    EXPECT_NE(refused("k6v4:served", {.sink_tokens = 16}).find("multiple of 64"),
              std::string::npos);
}

TEST_F(ServedCaches, ColdRowsSkipAnyLayers) {
    const auto last = ec_candidates(*model_, sidecar_, {"ec:3"}, {3});
    ASSERT_TRUE(last.ok()) << last.error().message;
    EXPECT_EQ(last->front()->name(), "ec:3, layers 3 exact");
    const auto whole = ec_candidates(*model_, sidecar_, {"ec:3"});
    ASSERT_TRUE(whole.ok());
    EXPECT_NE(logits(last->front().get()), logits(whole->front().get()));
    EXPECT_NEAR(last->front()->bits(32), (3 * whole->front()->bits(32) + 16) / 4, 0.5);
    // What the skipped layer foretells stands alone.
    const auto first = ec_candidates(*model_, sidecar_, {"ec:3", "ec:3:alone"}, {0});
    ASSERT_TRUE(first.ok()) << first.error().message;
    EXPECT_NE(logits((*first)[0].get()), logits((*first)[1].get()));
    EXPECT_TRUE(
        served_candidate(*model_, "k6v4+ec:2", {.sidecar = &sidecar_, .skip_layers = {1}}).ok());
}

}  // namespace
}  // namespace quire::bench
