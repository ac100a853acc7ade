// Several codecs in one engine: each request gets what an engine of its codec alone would give it,
// in any company, from every tier, and under preemption. Needs the models that tools/models
// fetches.
#include <map>

#include <gtest/gtest.h>

#include "real_engine.h"

namespace quire {
namespace {

using testing::EngineCase;
using testing::kModels;
using testing::Pending;
using testing::Reply;
using testing::some_text;

constexpr const char* kCodecs[] = {"k3v2", "raw16", "k8v8"};  // the first is the default
constexpr uint32_t kAnswerTokens = 24;

uint32_t cached(const Reply& reply) {
    uint32_t sum = 0;
    for (const uint32_t tokens : reply.timing.cached_tokens) sum += tokens;
    return sum;
}

class EngineLanesTest : public testing::RealEngineTest {
 protected:
    // Replies by codec, then by text.
    using Replies = std::map<std::string, std::vector<Reply>>;

    EngineOptions mixed() const {
        EngineOptions options = this->options();
        options.threads = 1;
        options.kv_codec = kCodecs[0];
        options.kv_codecs_allowed = {kCodecs[1], kCodecs[2]};
        return options;
    }

    GenerateRequest greedy_in(const std::string& codec, const std::string& text,
                              uint32_t max_tokens = kAnswerTokens) const {
        GenerateRequest request = greedy(text, max_tokens);
        request.sampling.logprobs = 0;
        if (codec != kCodecs[0]) request.kv_codec = codec;
        return request;
    }

    // What engines of one codec each answer to each text, alone.
    Replies alone(const std::vector<std::string>& texts) {
        Replies replies;
        for (const char* codec : kCodecs) {
            EngineOptions one = options();
            one.kv_codec = codec;
            one.threads = 1;
            one.disk_dir.clear();
            open(one);
            for (const std::string& text : texts)
                replies[codec].push_back(Pending(*engine_, greedy_in(kCodecs[0], text)).wait());
        }
        engine_.reset();
        return replies;
    }

    // All texts in all codecs at once, codecs interleaved.
    Replies together(const std::vector<std::string>& texts, uint32_t max_tokens = kAnswerTokens) {
        std::map<std::string, std::vector<std::unique_ptr<Pending>>> pending;
        for (const std::string& text : texts)
            for (const char* codec : kCodecs)
                pending[codec].push_back(
                    std::make_unique<Pending>(*engine_, greedy_in(codec, text, max_tokens)));
        Replies replies;
        for (const char* codec : kCodecs)
            for (auto& one : pending[codec]) replies[codec].push_back(one->wait());
        return replies;
    }

    uint32_t block_tokens(const std::string& codec) const {
        return engine_->model().find_kv_codec(codec)->block_tokens;
    }
};

void expect_same(const std::map<std::string, std::vector<Reply>>& got,
                 const std::map<std::string, std::vector<Reply>>& want) {
    for (const auto& [codec, replies] : want) {
        for (size_t i = 0; i < replies.size(); ++i) {
            const Reply& reply = got.at(codec)[i];
            EXPECT_EQ(reply.finish, Finish::length)
                << codec << ": " << (reply.error ? reply.error->message : "");
            EXPECT_EQ(reply.tokens, replies[i].tokens) << codec << ", text " << i;
            EXPECT_EQ(reply.logprobs, replies[i].logprobs) << codec << ", text " << i;
        }
    }
}

TEST_P(EngineLanesTest, EachCodecAnswersAsItsOwnEngineAndFromItsOwnBlocks) {
    std::vector<std::string> texts;
    for (size_t i = 0; i < 2; ++i) texts.push_back(some_text(600 + 150 * i, 900 * i));
    const Replies want = alone(texts);
    for (const char* codec : {"raw16", "k8v8"})
        ASSERT_NE(want.at("k3v2")[0].logprobs, want.at(codec)[0].logprobs)
            << "the test cannot tell codecs";

    open(mixed());
    ASSERT_EQ(engine_->model().kv_codecs.size(), 3u);
    EXPECT_EQ(block_tokens("raw16"), 16u);
    EXPECT_EQ(block_tokens("k8v8"), 64u);
    const Replies cold = together(texts);
    expect_same(cold, want);
    for (const auto& [codec, replies] : cold)
        for (const Reply& reply : replies) EXPECT_EQ(cached(reply), 0u) << codec;
    expect_idle();

    const auto expect_from = [&](int tier) {
        const Replies hits = together(texts);
        expect_same(hits, want);
        for (const auto& [codec, replies] : hits) {
            const uint32_t block = block_tokens(codec);
            for (const Reply& reply : replies)
                EXPECT_EQ(reply.timing.cached_tokens[tier],
                          (reply.timing.prompt_tokens - 1) / block * block)
                    << codec << ", tier " << tier << ": " << reply.timing.miss_reason;
        }
        expect_idle();
    };
    expect_from(0);
    ASSERT_TRUE(engine_->flush({Tier::g1}, true).ok());
    expect_from(1);
    ASSERT_TRUE(engine_->flush({Tier::g1, Tier::g2}, false).ok());
    expect_from(2);
    engine_->drain(int64_t{10} * 1'000'000'000);
    open(mixed());
    expect_from(2);
    EXPECT_GT(*engine_->flush({}, false), 0u);
    EXPECT_EQ(engine_->cache_status().tiers.size(), 3u);
    expect_same(together(texts), want);
}

TEST_P(EngineLanesTest, ExplainAndFiguresAreOfTheCodecAskedFor) {
    open(mixed());
    const GenerateRequest request = greedy_in("k8v8", some_text(1200), 4);
    const Reply reply = Pending(*engine_, request).wait();
    ASSERT_EQ(reply.finish, Finish::length);
    const auto explain = [&](const char* codec) {
        auto answer = engine_->explain(request.prompt, "", "", codec);
        EXPECT_TRUE(answer.ok());
        return *answer;
    };
    const uint32_t whole = (reply.timing.prompt_tokens - 1) / 64 * 64;
    EXPECT_EQ(explain("k8v8").hit_tokens, whole);
    for (const char* codec : {"", "raw16"}) {
        const Explanation miss = explain(codec);
        EXPECT_EQ(miss.hit_tokens, 0u);
        EXPECT_EQ(miss.reason, "never_seen");
        EXPECT_NE(miss.detail.find(std::to_string(whole) + " of them are cached in k8v8"),
                  std::string::npos)
            << miss.detail;
    }
    expect_idle();
    const CacheStatus status = engine_->cache_status();
    ASSERT_EQ(status.codecs.size(), 3u);
    uint64_t used = 0, capacity = 0;
    for (const auto& row : status.codecs) {
        EXPECT_EQ(row.g1_used_bytes > 0, row.kv.name == "k8v8");
        EXPECT_EQ(row.lookup_tokens > 0, row.kv.name == "k8v8");
        used += row.g1_used_bytes;
        capacity += row.g1_capacity_bytes;
    }
    EXPECT_EQ(status.tiers[0].used_bytes, used);
    EXPECT_EQ(status.tiers[0].capacity_bytes, capacity);
    EXPECT_LE(capacity, mixed().kv_memory_bytes);

    EXPECT_EQ(engine_->explain({1}, "", "", "k4v4").code(), Code::invalid);
    GenerateRequest not_allowed = greedy_in("k4v4", "text");
    EXPECT_EQ(engine_->submit(not_allowed, [](GenerateEvent&&) {}).code(), Code::invalid);
    EXPECT_EQ(engine_->load().waiting + engine_->load().running, 0u);
}

// Each lane has memory for its prompts but not for all answers: jobs give up their pages to others
// of their own lane only, and none fails.
TEST_P(EngineLanesTest, PreemptionInEveryLaneChangesNoAnswer) {
    constexpr uint32_t kLongAnswerTokens = 240;
    EngineOptions small = mixed();
    small.disk_dir.clear();
    small.step_tokens = 128;
    small.max_running = 12;
    open(small);
    std::vector<std::string> texts;
    for (size_t i = 0; i < 4; ++i) texts.push_back(some_text(200 + 30 * i, 1000 * i));
    const Replies want = together(texts, kLongAnswerTokens);
    engine_.reset();

    uint64_t too_little = uint64_t{4} << 20, enough = uint64_t{256} << 20;
    while (enough - too_little > too_little / 32) {
        small.kv_memory_bytes = (too_little + enough) / 2;
        (open_engine(small).ok() ? enough : too_little) = small.kv_memory_bytes;
    }
    small.kv_memory_bytes = too_little;
    const auto refused = open_engine(small);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("gets one of 3 equal shares"), std::string::npos)
        << refused.error().message;

    small.kv_memory_bytes = enough;
    open(small);
    expect_same(together(texts, kLongAnswerTokens), want);
    EXPECT_GT(engine_->stats().preemptions, 0u) << "the test did not preempt";
    expect_idle();
}

TEST_P(EngineLanesTest, LanesTakeTurns) {
    EngineOptions slow = mixed();
    slow.step_tokens = 16;
    slow.threads = 2;  // so that lanes have workers to put to sleep
    open(slow);
    Pending decoding(*engine_, greedy_in("raw16", "Once upon a time", 1000));
    decoding.wait_tokens(1);
    // A few steps of another lane are over long before the answer is.
    EXPECT_EQ(Pending(*engine_, greedy_in("k8v8", some_text(300), 1)).wait().finish,
              Finish::length);
    engine_->cancel(decoding.id());
    EXPECT_EQ(decoding.wait().finish, Finish::cancelled);
    // And a prompt of more steps than an answer has tokens does not hold up the answer.
    Pending answer(*engine_, greedy_in("raw16", "Once upon a time", 40));
    answer.wait_tokens(1);
    Pending prompt(*engine_, greedy_in("k8v8", some_text(5000, 300), 1));
    EXPECT_EQ(answer.wait().finish, Finish::length);
    engine_->cancel(prompt.id());
    EXPECT_EQ(prompt.wait().finish, Finish::cancelled);
    expect_idle();
}

TEST_P(EngineLanesTest, CancellingAndDrainingReachEveryLane) {
    EngineOptions one_at_a_time = mixed();
    one_at_a_time.max_running = 2;
    open(one_at_a_time);
    std::vector<std::unique_ptr<Pending>> pending;
    for (int i = 0; i < 2; ++i)
        for (const char* codec : kCodecs)
            pending.push_back(std::make_unique<Pending>(
                *engine_, greedy_in(codec, some_text(400, 500 * i), 1000)));
    pending[0]->wait_tokens(1);
    engine_->cancel(pending[0]->id());  // runs
    engine_->cancel(pending[5]->id());  // waits
    EXPECT_EQ(pending[0]->wait().finish, Finish::cancelled);
    EXPECT_EQ(pending[5]->wait().finish, Finish::cancelled);
    engine_->drain(1);
    for (auto& one : pending) EXPECT_EQ(one->wait().finish, Finish::cancelled);
    expect_idle();
}

INSTANTIATE_TEST_SUITE_P(Models, EngineLanesTest,
                         ::testing::Values(EngineCase{kModels[0]}, EngineCase{kModels[1]}),
                         [](const auto& row) { return std::string(row.param.file).substr(0, 5); });

}  // namespace
}  // namespace quire
