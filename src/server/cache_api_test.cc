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
    EXPECT_EQ(status["kv"]["recent_tokens"], 128);
    EXPECT_EQ(status["kv"]["exact_layers"], Json({0, 29}));
    EXPECT_EQ(status["kv"]["bytes_per_token"], 66);
    ASSERT_EQ(status["codecs"].size(), 2u);
    EXPECT_EQ(status["codecs"][0]["codec"], "k8v8");
    EXPECT_EQ(status["codecs"][1]["g1_used_bytes"], 512);
    EXPECT_EQ(status["codecs"][1]["lookups"]["hit_rate"], 0.75);
}

TEST(Api, CacheStatusSaysWhatBecameOfTheSidecar) {
    using State = SidecarStatus::State;
    TestServer t;
    const auto shown = [&](SidecarStatus status) {
        t.engine.set_sidecar(std::move(status));
        return parsed(t.get("/v1/cache").body)["sidecar"];
    };
    EXPECT_EQ(shown({}), (Json{{"state", "none"}}));
    EXPECT_EQ(shown({.state = State::used, .hash = "ab", .why = ""}),
              (Json{{"state", "used"}, {"hash", "ab"}}));
    EXPECT_EQ(shown({.state = State::learning,
                     .hash = "",
                     .tokens_seen = 5,
                     .tokens_wanted = 9,
                     .why = ""}),
              (Json{{"state", "learning"}, {"tokens", 5}, {"of_tokens", 9}}));
    EXPECT_EQ(shown({.state = State::learned, .hash = "cd", .why = ""})["hash"], "cd");
    EXPECT_EQ(shown({.state = State::failed, .hash = "", .why = "full"})["why"], "full");
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

TEST(Api, CodecsAreChosenFromTheServersList) {
    TestServer t;
    t.engine.allow_codec("k8v8", 100);
    t.engine.allow_codec("k4v4", 4000);
    const Json listed = parsed(t.get("/v1/models").body)["data"][0]["quire"];
    EXPECT_EQ(listed["kv_codec"], "raw16");
    EXPECT_EQ(listed["kv_codecs"], (Json{"raw16", "k8v8", "k4v4"}));
    const auto codec_of = [&](const std::string& path, const std::string& body) {
        const auto reply = t.post(path, body);
        EXPECT_EQ(reply.status, 200) << reply.body;
        return t.engine.requests().back().kv_codec;
    };
    EXPECT_EQ(codec_of("/v1/completions", R"({"prompt":"x"})"), "raw16");
    EXPECT_EQ(codec_of("/v1/completions", R"({"prompt":"x","kv_codec":null})"), "raw16");
    EXPECT_EQ(codec_of("/v1/completions", R"({"prompt":"x","kv_codec":"k4v4"})"), "k4v4");
    EXPECT_EQ(codec_of("/v1/completions", R"({"prompt":"x","kv_codec":"i4r"})"), "k4v4")
        << "another name of it";
    EXPECT_EQ(codec_of("/v1/chat/completions",
                       R"({"messages":[{"role":"user","content":"x"}],"kv_codec":"k8v8"})"),
              "k8v8");
    // Without max_tokens a chat goes on to what its codec's share of G1 holds.
    EXPECT_LE(t.engine.requests().back().max_tokens, 100u);
    const std::string many =
        std::string(R"({"prompt":")") + std::string(200, 'x') + R"(","max_tokens":1,"kv_codec":")";
    EXPECT_EQ(codec_of("/v1/completions", many + R"(k4v4"})"), "k4v4");
    EXPECT_EQ(error_of(t.post("/v1/completions", many + R"(k8v8"})"), 400)["code"],
              "context_length_exceeded");

    const size_t before = t.engine.requests().size();
    for (const char* path : {"/v1/completions", "/v1/cache/explain"}) {
        const Json error = error_of(t.post(path, R"({"prompt":"x","kv_codec":"k2v2"})"), 400);
        EXPECT_EQ(error["param"], "kv_codec");
        EXPECT_NE(error["message"].get<std::string>().find("raw16, k8v8, k4v4"), std::string::npos);
    }
    // Who takes a name that no server writes pages in is said, and not --kv-codec-allow.
    for (const char* name : {"ec:2.7", "fp8_e4m3", "k9v9"}) {
        const Json body = {{"prompt", "x"}, {"kv_codec", name}};
        const std::string said =
            error_of(t.post("/v1/completions", body.dump()), 400)["message"].get<std::string>();
        EXPECT_EQ(said.find("--kv-codec-allow"), std::string::npos) << said;
        EXPECT_NE(said.find("k{2..8}v{2..8}"), std::string::npos) << said;
    }
    EXPECT_EQ(t.engine.requests().size(), before);
    const auto hit_in = [&](const char* codec) {
        const Json body = {{"prompt", "only in one"}, {"kv_codec", codec}};
        return parsed(t.post("/v1/cache/explain", body.dump()).body)["hit_tokens"];
    };
    codec_of("/v1/completions", R"({"prompt":"only in one","kv_codec":"k4v4"})");
    EXPECT_GT(hit_in("k4v4"), 0);
    EXPECT_EQ(hit_in("k8v8"), 0);
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
