// /v1/chat/completions, whole and streamed, over real sockets.
#include <gtest/gtest.h>

#include "server/test_server.h"

namespace quire::server {
namespace {

constexpr char kHello[] = R"("messages":[{"role":"user","content":"hi"}])";

std::string with(const std::string& fields) {
    return std::string("{") + kHello + fields + "}";
}

TEST(Chat, AnswersThroughTheTemplate) {
    TestServer t;
    const ClientReply reply = t.post("/v1/chat/completions", R"({"model":"fake","messages":[
        {"role":"developer","content":"be kind"},
        {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
        {"role":"assistant","content":null},
        {"role":"user","content":"c"}],"max_completion_tokens":2})");
    ASSERT_EQ(reply.status, 200) << reply.body;
    const Json body = parsed(reply.body);
    EXPECT_EQ(body["object"], "chat.completion");
    EXPECT_TRUE(body["id"].get<std::string>().starts_with("chatcmpl-"));
    EXPECT_EQ(body["choices"][0]["message"]["role"], "assistant");
    EXPECT_EQ(body["choices"][0]["message"]["content"], "one two");
    const auto request = t.engine.requests().at(0);
    EXPECT_EQ(t.engine.detokenize(request.prompt),
              "<system>be kind\n<user>a\nb\n<assistant>\n<user>c\n<assistant>");
    EXPECT_EQ(request.max_tokens, 2u);
}

TEST(Chat, MaxTokensDefaultsToTheRestOfTheContext) {
    TestServer t;
    t.engine.set_answer("ok");
    const ClientReply reply = t.post("/v1/chat/completions", with(""));
    ASSERT_EQ(reply.status, 200) << reply.body;
    const auto request = t.engine.requests().at(0);
    EXPECT_EQ(request.max_tokens + request.prompt.size(), FakeEngine::kContext);
    EXPECT_EQ(parsed(reply.body)["choices"][0]["finish_reason"], "stop");
}

TEST(Chat, MaxTokensDefaultsToWhatKvMemoryHoldsWhenThatIsLess) {
    TestServer t;
    t.engine.set_answer("ok");
    t.engine.set_kv_tokens_max(200);
    ASSERT_EQ(t.post("/v1/chat/completions", with("")).status, 200);
    const auto request = t.engine.requests().at(0);
    EXPECT_EQ(request.max_tokens + request.prompt.size(), 200u);
    EXPECT_EQ(parsed(t.get("/v1/models").body)["data"][0]["max_model_len"], 200);
}

TEST(Chat, WhatKvMemoryCannotHoldIsRefusedBeforeAnyWork) {
    TestServer t;
    t.engine.set_kv_tokens_max(200);
    const std::string long_prompt(300, 'x');
    for (const std::string& body :
         {with(R"(,"max_tokens":200)"),
          std::string(R"({"messages":[{"role":"user","content":")") + long_prompt + R"("}]})"}) {
        const ClientReply reply = t.post("/v1/chat/completions", body);
        EXPECT_EQ(reply.status, 400) << reply.body;
        const Json error = parsed(reply.body)["error"];
        EXPECT_EQ(error["code"], "context_length_exceeded");
        EXPECT_NE(error["message"].get<std::string>().find("--kv-memory holds 200"),
                  std::string::npos);
    }
    EXPECT_TRUE(t.engine.requests().empty());
}

TEST(Chat, StreamsRoleThenContentThenFinish) {
    TestServer t;
    const auto events = t.stream("/v1/chat/completions", with(R"(,"stream":true,"max_tokens":3)"));
    ASSERT_EQ(events.size(), 4u);
    EXPECT_EQ(events[0]["object"], "chat.completion.chunk");
    EXPECT_EQ(events[0]["choices"][0]["delta"]["role"], "assistant");
    EXPECT_FALSE(events[1]["choices"][0]["delta"].contains("role"));
    std::string text;
    for (int i = 0; i < 3; ++i) text += events[i]["choices"][0]["delta"].value("content", "");
    EXPECT_EQ(text, "one two three");
    EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(events[0]["id"], events[2]["id"]);
    EXPECT_EQ(events[3], "[DONE]");
}

TEST(Chat, LogprobsInContent) {
    TestServer t;
    const ClientReply reply =
        t.post("/v1/chat/completions", with(R"(,"logprobs":true,"top_logprobs":2,"max_tokens":1)"));
    ASSERT_EQ(reply.status, 200) << reply.body;
    const Json entry = parsed(reply.body)["choices"][0]["logprobs"]["content"][0];
    EXPECT_EQ(entry["token"], "one");
    EXPECT_EQ(entry["bytes"], (Json{'o', 'n', 'e'}));
    EXPECT_EQ(entry["logprob"], -0.5);
    EXPECT_EQ(entry["top_logprobs"].size(), 2u);
    EXPECT_EQ(entry["top_logprobs"][1]["token"], "b");
}

TEST(Chat, StreamedLogprobsComeWithTheirToken) {
    TestServer t;
    const auto events =
        t.stream("/v1/chat/completions", with(R"(,"stream":true,"logprobs":true,"max_tokens":2)"));
    ASSERT_EQ(events.size(), 3u);
    EXPECT_EQ(events[1]["choices"][0]["logprobs"]["content"][0]["token"], " two");
}

TEST(Chat, ATemplateThatRefusesIsABadRequest) {
    TestServer t;
    const ClientReply reply =
        t.post("/v1/chat/completions", R"({"messages":[{"role":"tool","content":"x"}]})");
    EXPECT_EQ(error_of(reply, 400)["param"], "messages");
}

TEST(Chat, SeveralChoicesStreamInterleavedByIndex) {
    TestServer t;
    const auto events =
        t.stream("/v1/chat/completions", with(R"(,"stream":true,"n":3,"max_tokens":2)"));
    std::string text[3];
    for (size_t i = 0; i + 1 < events.size(); ++i) {
        const Json& choice = events[i]["choices"][0];
        text[choice["index"].get<int>()] += choice["delta"].value("content", "");
    }
    for (const std::string& one : text) EXPECT_EQ(one, "one two");
}

}  // namespace
}  // namespace quire::server
