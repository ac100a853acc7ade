// /v1/completions, whole and streamed, over real sockets.
#include <gtest/gtest.h>

#include "server/test_server.h"

namespace quire::server {
namespace {

TEST(Completions, AnswersAStringPrompt) {
    TestServer t;
    const ClientReply reply = t.post(
        "/v1/completions", R"({"model":"fake","prompt":"hello","max_tokens":3,"temperature":0})");
    ASSERT_EQ(reply.status, 200) << reply.body;
    const Json body = parsed(reply.body);
    EXPECT_EQ(body["object"], "text_completion");
    EXPECT_EQ(body["model"], "fake");
    EXPECT_TRUE(body["id"].get<std::string>().starts_with("cmpl-"));
    ASSERT_EQ(body["choices"].size(), 1u);
    EXPECT_EQ(body["choices"][0]["text"], "one two three");
    EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(body["choices"][0]["logprobs"], nullptr);
    EXPECT_EQ(body["usage"]["prompt_tokens"], 5);
    EXPECT_EQ(body["usage"]["completion_tokens"], 3);
    EXPECT_EQ(body["usage"]["total_tokens"], 8);
    EXPECT_EQ(body["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    const Json& timing = body["quire"]["timing"];
    EXPECT_EQ(timing["queue_ms"], 1.0);
    EXPECT_EQ(timing["prefill_ms"], 2.0);
    EXPECT_EQ(timing["decode_ms"], 3.0);
    EXPECT_TRUE(timing["load_ms"].contains("g3"));
}

TEST(Completions, PassesEverySamplingFieldOn) {
    TestServer t;
    const ClientReply reply = t.post("/v1/completions", R"({"prompt":"x","max_tokens":2,
        "temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.05,"repetition_penalty":1.1,
        "presence_penalty":-1,"frequency_penalty":0.25,"logit_bias":{"65":-3.5},"seed":-7,
        "ignore_eos":true,"min_tokens":1,"stop":["a","b"],"cache_salt":"pepper",
        "kv_codec":"raw16"})");
    ASSERT_EQ(reply.status, 200) << reply.body;
    const GenerateRequest request = t.engine.requests().at(0);
    EXPECT_FLOAT_EQ(request.sampling.temperature, 0.5f);
    EXPECT_FLOAT_EQ(request.sampling.top_p, 0.9f);
    EXPECT_EQ(request.sampling.top_k, 40);
    EXPECT_FLOAT_EQ(request.sampling.min_p, 0.05f);
    EXPECT_FLOAT_EQ(request.sampling.repetition_penalty, 1.1f);
    EXPECT_FLOAT_EQ(request.sampling.presence_penalty, -1);
    EXPECT_FLOAT_EQ(request.sampling.frequency_penalty, 0.25f);
    ASSERT_EQ(request.sampling.logit_bias.size(), 1u);
    EXPECT_EQ(request.sampling.logit_bias[0].first, 65);
    EXPECT_FLOAT_EQ(request.sampling.logit_bias[0].second, -3.5f);
    EXPECT_EQ(request.sampling.seed, static_cast<uint64_t>(-7));
    EXPECT_TRUE(request.sampling.ignore_eos);
    EXPECT_EQ(request.min_tokens, 1u);
    EXPECT_EQ(request.stop, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(request.cache_salt, "pepper");
    EXPECT_EQ(request.tenant, "");
}

TEST(Completions, ManyPromptsTimesManyChoices) {
    TestServer t;
    const ClientReply reply =
        t.post("/v1/completions", R"({"prompt":["ab","c"],"max_tokens":2,"n":2,"seed":10})");
    const Json body = parsed(reply.body);
    ASSERT_EQ(body["choices"].size(), 4u) << reply.body;
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(body["choices"][i]["index"], i);
        EXPECT_EQ(body["choices"][i]["text"], "one two");
    }
    EXPECT_EQ(body["usage"]["prompt_tokens"], 3);  // a prompt counts once
    EXPECT_EQ(body["usage"]["completion_tokens"], 8);
    EXPECT_EQ(body["quire"]["choices"].size(), 4u);
    const auto requests = t.engine.requests();
    ASSERT_EQ(requests.size(), 4u);
    EXPECT_EQ(requests[0].sampling.seed, 10u);
    EXPECT_EQ(requests[1].sampling.seed, 11u);
    EXPECT_EQ(requests[2].sampling.seed, 10u);
}

TEST(Completions, TokenPromptsAndEcho) {
    TestServer t;
    const int a = 'a' + FakeEngine::kFirstByte;
    const ClientReply reply = t.post(
        "/v1/completions", Json{{"prompt", {a, a + 1}}, {"max_tokens", 1}, {"echo", true}}.dump());
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(parsed(reply.body)["choices"][0]["text"], "abone");
    EXPECT_EQ(t.engine.requests().at(0).prompt, (std::vector<TokenId>{a, a + 1}));
}

TEST(Completions, StopFinishesAndIsNotShown) {
    TestServer t;
    const ClientReply reply =
        t.post("/v1/completions", R"({"prompt":"x","max_tokens":9,"stop":" three"})");
    const Json choice = parsed(reply.body)["choices"][0];
    EXPECT_EQ(choice["text"], "one two");
    EXPECT_EQ(choice["finish_reason"], "stop");
}

// A prompt of one token has one logprob to tell: that it has none.
TEST(Completions, EchoTellsTheFirstTokenEvenAlone) {
    TestServer t;
    const int a = 'a' + FakeEngine::kFirstByte;
    const ClientReply reply = t.post(
        "/v1/completions",
        Json{{"prompt", {a}}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}}.dump());
    ASSERT_EQ(reply.status, 200) << reply.body;
    const Json logprobs = parsed(reply.body)["choices"][0]["logprobs"];
    EXPECT_EQ(logprobs["tokens"], (Json{"a"}));
    EXPECT_EQ(logprobs["token_logprobs"], (Json{nullptr}));
}

TEST(Completions, Logprobs) {
    TestServer t;
    const ClientReply reply =
        t.post("/v1/completions", R"({"prompt":"x","max_tokens":2,"logprobs":2})");
    const Json logprobs = parsed(reply.body)["choices"][0]["logprobs"];
    EXPECT_EQ(logprobs["tokens"], (Json{"one", " two"}));
    EXPECT_EQ(logprobs["text_offset"], (Json{0, 3}));
    EXPECT_EQ(logprobs["token_logprobs"], (Json{-0.5, -0.5}));
    EXPECT_EQ(logprobs["top_logprobs"][0], (Json{{"a", -0.5}, {"b", -1.5}}));
}

TEST(Completions, StreamsChunksThenUsageThenDone) {
    TestServer t;
    const auto events = t.stream("/v1/completions", R"({"prompt":"hello","max_tokens":3,
        "stream":true,"stream_options":{"include_usage":true}})");
    ASSERT_EQ(events.size(), 5u);
    std::string text;
    for (int i = 0; i < 3; ++i) {
        text += events[i]["choices"][0]["text"].get<std::string>();
        EXPECT_EQ(events[i]["usage"], nullptr);
    }
    EXPECT_EQ(text, "one two three");
    EXPECT_EQ(events[1]["choices"][0]["finish_reason"], nullptr);
    EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "length");
    EXPECT_TRUE(events[3]["choices"].empty());
    EXPECT_EQ(events[3]["usage"]["completion_tokens"], 3);
    EXPECT_TRUE(events[3]["quire"].contains("timing"));
    EXPECT_EQ(events[4], "[DONE]");
}

TEST(Completions, LastChunkCarriesTimingsWithoutUsage) {
    TestServer t;
    const auto events =
        t.stream("/v1/completions", R"({"prompt":"p","max_tokens":2,"stream":true,"n":2})");
    ASSERT_EQ(events.size(), 5u);
    EXPECT_FALSE(events[0].contains("usage"));
    EXPECT_FALSE(events[2].contains("quire"));
    EXPECT_EQ(events[3]["quire"]["choices"].size(), 2u);
    EXPECT_EQ(events[4], "[DONE]");
}

TEST(Completions, CachedTokensAndSalt) {
    TestServer t;
    auto cached = [&](const char* body) {
        return parsed(t.post("/v1/completions", body)
                          .body)["usage"]["prompt_tokens_details"]["cached_tokens"]
            .get<int>();
    };
    EXPECT_EQ(cached(R"({"prompt":"hello","max_tokens":1})"), 0);
    EXPECT_EQ(cached(R"({"prompt":"hello","max_tokens":1})"), 4);
    EXPECT_EQ(cached(R"({"prompt":"hello","max_tokens":1,"cache_salt":"mine"})"), 0);
}

TEST(Completions, UnknownFieldsAreIgnoredAndNamed) {
    TestServer t;
    const ClientReply reply =
        t.post("/v1/completions", R"({"prompt":"x","max_tokens":1,"temprature":0,"user":"me"})");
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(parsed(reply.body)["quire"]["ignored_fields"], (Json{"temprature"}));
}

TEST(Completions, TextThatIsNotUtf8BecomesReplacementCharacters) {
    TestServer t;
    t.engine.set_answer("\xff!");
    const ClientReply reply = t.post("/v1/completions", R"({"prompt":"x","max_tokens":9})");
    EXPECT_EQ(parsed(reply.body)["choices"][0]["text"], "\xEF\xBF\xBD!");
}

}  // namespace
}  // namespace quire::server
