// The whole engine on real models: the same tokens cold and from every tier, under preemption,
// beside other requests; cancellation and refusal. Needs the models that tools/models fetches.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include "base/fault_io.h"
#include "real_engine.h"

namespace quire {
namespace {

using testing::EngineCase;
using testing::kModels;
using testing::Pending;
using testing::Reply;
using testing::some_text;

class EngineTest : public testing::RealEngineTest {};

TEST_P(EngineTest, SameTokensColdAndFromEveryTier) {
    open(options());
    const std::string text = some_text(3000);
    const Reply cold = run(text, 16);
    ASSERT_EQ(cold.finish, Finish::length);
    ASSERT_EQ(cold.tokens.size(), 16u);
    const uint32_t whole = (cold.timing.prompt_tokens - 1) / 16 * 16;

    const Reply g1 = run(text, 16);
    EXPECT_EQ(g1.tokens, cold.tokens);
    EXPECT_GE(g1.timing.cached_tokens[0], whole);

    ASSERT_TRUE(engine_->flush({Tier::g1}, true).ok());
    const Reply g2 = run(text, 16);
    EXPECT_EQ(g2.tokens, cold.tokens);
    EXPECT_EQ(g2.timing.cached_tokens[1], whole);
    EXPECT_GT(g2.timing.load_bytes[1], 0u);

    ASSERT_TRUE(engine_->flush({Tier::g1, Tier::g2}, false).ok());
    const Reply g3 = run(text, 16);
    EXPECT_EQ(g3.tokens, cold.tokens);
    EXPECT_EQ(g3.timing.cached_tokens[2], whole);

    engine_->drain(int64_t{10} * 1'000'000'000);
    open(options());
    const Reply restarted = run(text, 16);
    EXPECT_EQ(restarted.tokens, cold.tokens);
    EXPECT_EQ(restarted.timing.cached_tokens[2], whole);

    EngineOptions off = options();
    off.cache = false;
    off.disk_dir.clear();
    open(off);
    EXPECT_EQ(run(text, 16).tokens, cold.tokens);
    expect_idle();
}

TEST_P(EngineTest, TheStatusShowsWhatWasAnswered) {
    EngineOptions behind = options();
    behind.write_through_disk = false;
    open(behind);
    const std::string text = some_text(400);
    uint64_t lookups = 0;
    for (int round = 0; round < 20; ++round) {
        lookups += run(text, 1).timing.prompt_tokens;
        ASSERT_EQ(engine_->cache_status().lookup_tokens, lookups);
        ASSERT_TRUE(engine_->flush({Tier::g1, Tier::g2}, true).ok());
        const auto written = engine_->cache_status().tiers;
        ASSERT_EQ(written.at(0).blocks + written.at(1).blocks, 0u);
        ASSERT_GT(written.at(2).blocks, 0u);
        ASSERT_TRUE(engine_->flush({}, false).ok());
        ASSERT_EQ(engine_->cache_status().tiers.at(2).blocks, 0u);
    }
    expect_idle();
}

TEST_P(EngineTest, WithoutWriteThroughATierGetsWhatTheOneAboveGivesUp) {
    EngineOptions small = options();
    small.kv_memory_bytes = uint64_t{16} << 20;
    small.host_memory_bytes = uint64_t{8} << 20;
    small.write_through_host = small.write_through_disk = false;
    open(small);
    const auto text = [](size_t i) { return std::to_string(i) + some_text(1200, 2000 * i); };
    const auto blocks_in = [this](size_t lower) {
        EXPECT_TRUE(engine_->explain({1}, "", "", "").ok());  // figures of now
        return engine_->cache_status().tiers.at(lower).blocks;
    };
    const Reply cold = run(text(0), 4);
    expect_idle();
    EXPECT_GT(blocks_in(0), 0u);
    EXPECT_EQ(blocks_in(1), 0u);
    EXPECT_EQ(blocks_in(2), 0u);
    for (size_t i = 1; i < 9; ++i) run(text(i), 1);
    engine_->drain(int64_t{10} * 1'000'000'000);  // what left is written
    open(small);
    const Reply after = run(text(0), 4);
    EXPECT_EQ(after.tokens, cold.tokens);
    EXPECT_EQ(after.timing.cached_tokens[2], (cold.timing.prompt_tokens - 1) / 16 * 16)
        << "G1 gave it to G2, and G2 to G3: " << after.timing.miss_reason;
}

TEST_P(EngineTest, CompanyDoesNotChangeAnswers) {
    open(options());
    std::vector<std::string> texts;
    for (size_t i = 0; i < 6; ++i) texts.push_back(some_text(300 + 90 * i, 400 * (i / 2)));
    std::vector<Reply> alone;
    for (const std::string& text : texts) {
        ASSERT_TRUE(engine_->flush({}, false).ok());
        alone.push_back(run(text, 12));
    }
    ASSERT_TRUE(engine_->flush({}, false).ok());
    std::vector<std::unique_ptr<Pending>> together;
    for (const std::string& text : texts)
        together.push_back(std::make_unique<Pending>(*engine_, greedy(text, 12)));
    for (size_t i = 0; i < texts.size(); ++i) {
        const Reply reply = together[i]->wait();
        EXPECT_EQ(reply.tokens, alone[i].tokens) << "request " << i;
        EXPECT_EQ(reply.text, alone[i].text) << "request " << i;
    }
    expect_idle();
}

TEST_P(EngineTest, PreemptionLosesNothing) {
    EngineOptions small = options();
    open(small);
    std::vector<std::string> texts;
    for (size_t i = 0; i < 4; ++i) texts.push_back(some_text(900, 1000 * i));
    std::vector<Reply> alone;
    for (const std::string& text : texts) alone.push_back(run(text, 100));
    const uint64_t per_token = engine_->model().kv().bytes_per_token;

    // Memory for the prompts but not for the answers of all four.
    uint64_t prompts = 0;
    for (const Reply& reply : alone) prompts += reply.timing.prompt_tokens;
    small.kv_memory_bytes = per_token * (prompts + 160);
    small.host_memory_bytes = uint64_t{256} << 20;
    small.disk_dir.clear();
    open(small);
    std::vector<std::unique_ptr<Pending>> together;
    for (const std::string& text : texts)
        together.push_back(std::make_unique<Pending>(*engine_, greedy(text, 100)));
    for (size_t i = 0; i < texts.size(); ++i) {
        const Reply reply = together[i]->wait();
        EXPECT_EQ(reply.finish, Finish::length) << (reply.error ? reply.error->message : "");
        EXPECT_EQ(reply.tokens, alone[i].tokens) << "request " << i;
    }
    expect_idle();
    EXPECT_GT(engine_->stats().preemptions, 0u) << "the test did not preempt";
}

TEST_P(EngineTest, SameTokensWhenStepsBeginBeforeTheirPagesHaveLanded) {
    EngineOptions eager = options();
    eager.overlap = LoadOverlap::always;
    open(eager);
    const std::string text = some_text(4000);
    const Reply cold = run(text, 12);
    for (const bool disk : {false, true}) {
        ASSERT_TRUE(engine_->flush({Tier::g1}, true).ok());
        if (disk) {
            ASSERT_TRUE(engine_->flush({Tier::g2}, false).ok());
        }
        const uint64_t before = engine_->stats().overlapped;
        const Reply hit = run(text, 12);
        EXPECT_EQ(hit.tokens, cold.tokens);
        EXPECT_EQ(hit.timing.cached_tokens[disk ? 2 : 1],
                  (cold.timing.prompt_tokens - 1) / 16 * 16);
        EXPECT_GT(hit.timing.load_ns[disk ? 2 : 1], 0);
        expect_idle();
        EXPECT_EQ(engine_->stats().overlapped, before + 1) << "the step waited for all pages";
    }
}

// Every place where a read may be damaged: in the first layers, in the last, in the header.
TEST_P(EngineTest, ALoadThatFailsInTheMiddleOfAStepIsComputedAgain) {
    FaultIo io(std::move(make_io_engine({})).value());
    EngineOptions eager = options();
    eager.overlap = LoadOverlap::always;
    eager.host_memory_bytes = 0;
    eager.io = &io;
    open(eager);
    const std::string text = some_text(2500);
    const Reply cold = run(text, 8);
    uint64_t reads = 0;
    for (uint64_t skip = 0; skip <= reads; skip += std::max<uint64_t>(1, reads / 5)) {
        SCOPED_TRACE("read " + std::to_string(skip) + " of " + std::to_string(reads));
        ASSERT_TRUE(engine_->flush({Tier::g1}, true).ok());
        io.clear();
        const uint64_t hits = io.hits();
        const EngineStats before = engine_->stats();
        io.add({.kind = FaultKind::bit_flip,
                .bit = 40'000,
                .op = IoOp::read,
                .path_part = "segment-",
                .skip = skip});
        const uint64_t requests = io.stats().requests;
        const Reply hit = run(text, 8);
        EXPECT_EQ(hit.tokens, cold.tokens);
        if (reads == 0) reads = io.stats().requests - requests;
        expect_idle();
        if (io.hits() == hits) break;  // past the last read
        EXPECT_GT(engine_->stats().overlap_dropped, before.overlap_dropped);
    }
    EXPECT_GT(reads, 0u);
    engine_.reset();
}

TEST_P(EngineTest, AStuckDiskHoldsNobodyElseAndCancellingFreesEverything) {
    FaultIo io(std::move(make_io_engine({})).value());
    EngineOptions eager = options();
    eager.overlap = LoadOverlap::always;
    eager.host_memory_bytes = 0;
    eager.io = &io;
    open(eager);
    const std::string text = some_text(2500);
    const std::string other = some_text(600, 5000);
    const Reply cold = run(text, 8);
    const Reply alone = run(other, 8);
    ASSERT_TRUE(engine_->flush({Tier::g1}, true).ok());
    io.add({.kind = FaultKind::hold,
            .op = IoOp::read,
            .path_part = "segment-",
            .skip = 3,
            .times = kAlways});
    Pending stuck(*engine_, greedy(text, 8));
    Pending cancelled(*engine_, greedy(text, 8));
    GenerateRequest fresh = greedy(other, 8);
    fresh.cache_salt = "computed anew";
    EXPECT_EQ(Pending(*engine_, fresh).wait().tokens, alone.tokens);
    engine_->cancel(cancelled.id());
    EXPECT_EQ(cancelled.wait().finish, Finish::cancelled);
    EXPECT_GE(engine_->stats().overlap_dropped, 1u) << "the step waited for the disk";
    io.clear();
    while (io.held() > 0) io.release_held();
    EXPECT_EQ(stuck.wait().tokens, cold.tokens);
    expect_idle();
    engine_.reset();
}

TEST_P(EngineTest, CancellingTakesEffectAndFreesEverything) {
    open(options());
    Pending pending(*engine_, greedy(some_text(200), 2000));
    pending.wait_tokens(3);
    engine_->cancel(pending.id());
    EXPECT_EQ(pending.wait().finish, Finish::cancelled);
    engine_->cancel(pending.id());  // unknown by now
    engine_->cancel(123456);
    expect_idle();
}

TEST_P(EngineTest, DrainingLetsJobsEndOrCutsThemAndReturnsWhenNothingRuns) {
    open(options());
    Pending running(*engine_, greedy(some_text(400), 4));
    Pending queued(*engine_, greedy(some_text(300, 1000), 4));
    engine_->drain(int64_t{60} * 1'000'000'000);
    expect_idle();
    EXPECT_EQ(engine_->stats().cache.pending_stores, 0u);
    EXPECT_EQ(running.wait().finish, Finish::length);
    EXPECT_EQ(queued.wait().finish, Finish::length);
    EXPECT_EQ(engine_->submit(greedy("Hi", 1), [](GenerateEvent&&) {}).code(), Code::cancelled);

    open(options());
    Pending endless(*engine_, greedy(some_text(400), 1000));
    endless.wait_tokens(1);
    engine_->drain(0);
    expect_idle();
    EXPECT_EQ(endless.wait().finish, Finish::cancelled);
}

TEST_P(EngineTest, RefusesBeforeAnyWork) {
    open(options());
    const auto submit = [&](GenerateRequest request) {
        return engine_->submit(std::move(request), [](GenerateEvent&&) { ADD_FAILURE(); });
    };
    GenerateRequest request = greedy("hello", 4);
    request.prompt.clear();
    EXPECT_EQ(submit(request).code(), Code::invalid);
    request = greedy("hello", 4);
    request.prompt.push_back(1 << 30);
    EXPECT_EQ(submit(request).code(), Code::invalid);
    request = greedy("hello", engine_->model().context_tokens);
    const auto over = submit(request);
    ASSERT_EQ(over.code(), Code::invalid);
    EXPECT_NE(over.error().message.find(std::to_string(engine_->model().context_tokens)),
              std::string::npos);
    EXPECT_EQ(engine_->stats().steps, 0u);
}

TEST_P(EngineTest, RefusesWhatKvMemoryCanNeverHoldAndServesAllThatItCan) {
    EngineOptions small = options();
    small.kv_memory_bytes = uint64_t{8} << 20;
    small.disk_dir.clear();
    open(small);
    const uint32_t most = engine_->model().kv().tokens_max;
    ASSERT_LT(most, engine_->model().context_tokens);
    GenerateRequest request = greedy(some_text(400), 1);
    const auto prompt = static_cast<uint32_t>(request.prompt.size());
    request.max_tokens = most - prompt + 1;
    const auto over = engine_->submit(request, [](GenerateEvent&&) { ADD_FAILURE(); });
    ASSERT_EQ(over.code(), Code::invalid);
    EXPECT_NE(over.error().message.find("--kv-memory"), std::string::npos);
    EXPECT_EQ(engine_->stats().steps, 0u);

    request.max_tokens = most - prompt;
    const Reply reply = Pending(*engine_, request).wait();
    EXPECT_EQ(reply.finish, Finish::length) << (reply.error ? reply.error->message : "");
    EXPECT_EQ(reply.tokens.size(), most - prompt);
    expect_idle();
}

TEST_P(EngineTest, StopStringsEndTheTextBeforeThem) {
    open(options());
    const Reply whole = run(some_text(400), 40);
    ASSERT_GT(whole.text.size(), 12u);
    GenerateRequest request = greedy(some_text(400), 40);
    const std::string stop = whole.text.substr(whole.text.size() / 2, 4);
    request.stop = {stop};
    const Reply cut = Pending(*engine_, request).wait();
    EXPECT_EQ(cut.finish, Finish::stop);
    EXPECT_EQ(cut.text, whole.text.substr(0, whole.text.find(stop)));
}

TEST_P(EngineTest, PromptLogprobsCoverThePromptEvenWhenItIsCached) {
    open(options());
    GenerateRequest request = greedy(some_text(600), 2);
    (void)Pending(*engine_, request).wait();
    request.prompt_logprobs = true;
    request.sampling.logprobs = 1;
    const Reply reply = Pending(*engine_, request).wait();
    EXPECT_EQ(reply.tokens.size(), request.prompt.size() - 1 + 2);
}

TEST_P(EngineTest, PreemptionTellsThePromptsLogprobsOnce) {
    EngineOptions small = options();
    small.disk_dir.clear();
    open(small);
    std::vector<GenerateRequest> requests;
    std::vector<Reply> alone;
    uint64_t prompts = 0;
    for (size_t i = 0; i < 3; ++i) {
        GenerateRequest request = greedy(some_text(300, 1000 * i), 80);
        request.prompt_logprobs = true;
        request.sampling.logprobs = 1;
        alone.push_back(Pending(*engine_, request).wait());
        EXPECT_EQ(alone[i].tokens.size(), request.prompt.size() - 1 + 80);
        prompts += request.prompt.size();
        requests.push_back(std::move(request));
    }
    small.kv_memory_bytes = engine_->model().kv().bytes_per_token * (prompts + 120);
    open(small);
    std::vector<std::unique_ptr<Pending>> together;
    for (const GenerateRequest& request : requests)
        together.push_back(std::make_unique<Pending>(*engine_, request));
    for (size_t i = 0; i < requests.size(); ++i)
        EXPECT_EQ(together[i]->wait().tokens, alone[i].tokens) << "request " << i;
    expect_idle();
    EXPECT_GT(engine_->stats().preemptions, 0u) << "the test did not preempt";
}

TEST_P(EngineTest, StopStringsWaitForTheLeastNumberOfTokens) {
    open(options());
    GenerateRequest request = greedy(some_text(200), 12);
    const Reply free = Pending(*engine_, request).wait();
    ASSERT_GT(free.text.size(), 8u);
    request.stop = {free.text.substr(free.text.size() / 3, 2)};
    const Reply stopped = Pending(*engine_, request).wait();
    EXPECT_EQ(stopped.finish, Finish::stop);
    EXPECT_LT(stopped.tokens.size(), 11u);
    request.min_tokens = 11;
    const Reply held = Pending(*engine_, request).wait();
    EXPECT_GE(held.tokens.size(), 11u);
    EXPECT_EQ(held.text.substr(0, free.text.size() / 2), free.text.substr(0, free.text.size() / 2));
}

INSTANTIATE_TEST_SUITE_P(Models, EngineTest,
                         ::testing::Values(EngineCase{kModels[0]}, EngineCase{kModels[1]}),
                         [](const auto& row) { return std::string(row.param.file).substr(0, 5); });

TEST(OpenEngine, NamesWhatIsWrong) {
    EngineOptions options;
    options.model_path = "/does/not/exist.gguf";
    auto missing = open_engine(options);
    ASSERT_FALSE(missing.ok());
    EXPECT_NE(missing.error().message.find("/does/not/exist.gguf"), std::string::npos);
    options.model_path = "LICENSE";
    auto text = open_engine(options);
    ASSERT_FALSE(text.ok());
    EXPECT_NE(text.error().message.find("LICENSE"), std::string::npos);
}

}  // namespace
}  // namespace quire
