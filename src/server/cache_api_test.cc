// Models, tokenizing, versions and the cache's own routes.
#include <gtest/gtest.h>

#include "server/test_server.h"

namespace quire::server {
namespace {

TEST(Api, ModelsVersionAndProbes) {
    TestServer t;
    const Json models = parsed(t.get("/v1/models").body);
    ASSERT_EQ(models["data"].size(), 1u);
    EXPECT_EQ(models["data"][0]["id"], "fake");
    EXPECT_EQ(models["data"][0]["object"], "model");
    EXPECT_EQ(models["data"][0]["max_model_len"], FakeEngine::kContext);
    EXPECT_EQ(parsed(t.get("/v1/models/fake").body)["id"], "fake");
    EXPECT_EQ(parsed(t.get("/version").body)["version"], "1.2.3");
    EXPECT_EQ(parsed(t.get("/ready?verbose=1").body)["status"], "ready");
}

TEST(Api, TokenizesAndBack) {
    TestServer t;
    const auto reply = t.post("/tokenize", R"({"prompt":"hi","return_token_strs":true})");
    const Json body = parsed(reply.body);
    EXPECT_EQ(body["count"], 2);
    EXPECT_EQ(body["max_model_len"], FakeEngine::kContext);
    EXPECT_EQ(body["token_strs"], (Json{"h", "i"}));
    const Json back = {{"tokens", body["tokens"]}};
    EXPECT_EQ(parsed(t.post("/detokenize", back.dump()).body)["prompt"], "hi");
    const auto chat = t.post("/tokenize", R"({"messages":[{"role":"user","content":"x"}]})");
    EXPECT_EQ(parsed(chat.body)["count"], std::string("<user>x\n<assistant>").size());
    EXPECT_EQ(error_of(t.post("/tokenize", "{}"), 400)["param"], "prompt");
    EXPECT_EQ(error_of(t.post("/detokenize", R"({"tokens":[1,"x"]})"), 400)["param"], "tokens");
    EXPECT_EQ(error_of(t.post("/detokenize", R"({"tokens":[259]})"), 400)["param"], "tokens");
    EXPECT_EQ(error_of(t.post("/tokenize", R"({"model":"no","prompt":""})"), 404)["param"],
              "model");
}

TEST(Api, CacheStatus) {
    TestServer t;
    const Json status = parsed(t.get("/v1/cache").body);
    EXPECT_EQ(status["tiers"][0]["tier"], "g1");
    EXPECT_EQ(status["lookups"]["hit_rate"], 0.25);
    EXPECT_EQ(status["kv"]["codec"], "k8v8");
    EXPECT_EQ(status["kv"]["sink_tokens"], 64);
    EXPECT_EQ(status["kv"]["bytes_per_token"], 66);
}

TEST(Api, ExplainTakesAnyGenerationBody) {
    TestServer t;
    t.post("/v1/completions", R"({"prompt":"hello","max_tokens":1})");
    const Json hit = parsed(
        t.post("/v1/cache/explain", R"({"prompt":"hello","max_tokens":1,"stream":true})").body);
    EXPECT_EQ(hit["reason"], "whole_prompt");
    EXPECT_EQ(hit["hit_tokens"], 4);
    const Json chat =
        parsed(t.post("/v1/cache/explain", R"({"messages":[{"role":"user","content":"x"}]})").body);
    EXPECT_EQ(chat["reason"], "other_tenant");  // without keys there is nobody to hide it from
    EXPECT_EQ(chat["first_different_token"], 7);
    const Json two = parsed(t.post("/v1/cache/explain", R"({"prompt":["hello","b"]})").body);
    EXPECT_EQ(two["prompts"].size(), 2u);
    error_of(t.post("/v1/cache/explain", "{}"), 400);
    error_of(t.post("/v1/cache/explain", R"({"prompt":"a","kv_codec":"k4v3"})"), 400);
}

TEST(Api, FlushNamesTiers) {
    TestServer t;
    const auto reply = t.post("/v1/cache/flush", R"({"tiers":["g1","g3"],"write_back":true})");
    EXPECT_EQ(parsed(reply.body)["dropped_blocks"], 5);
    EXPECT_EQ(t.engine.flushed(), (std::vector<Tier>{Tier::g1, Tier::g3}));
    EXPECT_EQ(error_of(t.post("/v1/cache/flush", R"({"tiers":["g9"]})"), 400)["param"], "tiers");
    // A misspelt field must not mean "everything".
    EXPECT_EQ(error_of(t.post("/v1/cache/flush", R"({"tier":["g1"]})"), 400)["param"], "tier");
}

}  // namespace
}  // namespace quire::server
