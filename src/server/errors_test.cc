// Every way to ask wrongly, and the engine's failures, over real sockets: status and error object.
#include <gtest/gtest.h>

#include "server/test_server.h"

namespace quire::server {
namespace {

struct Bad {
    const char* fields;   // of a completion with prompt "x"
    const char* param;    // nullptr: null
    const char* message;  // part of it
};

const Bad kBad[] = {
    {R"("temperature":-0.1)", "temperature", "a number from 0 to 2; got -0.1"},
    {R"("temperature":1e300)", "temperature", "a number from 0 to 2"},
    {R"("temperature":"hot")", "temperature", "got \"hot\""},
    {R"("max_tokens":-1)", "max_tokens", "an integer from 1 to 2147483647; got -1"},
    {R"("max_tokens":0)", "max_tokens", "an integer from 1"},
    {R"("max_tokens":99999999999999999999)", "max_tokens", "an integer from 1"},
    {R"("max_tokens":1.5)", "max_tokens", "an integer"},
    {R"("max_tokens":true)", "max_tokens", "an integer"},
    {R"("top_p":1.01)", "top_p", "0 to 1"},
    {R"("top_p":0)", "top_p", "above 0"},
    {R"("top_p":1e-60)", "top_p", "above 0"},
    {R"("top_k":-2)", "top_k", "from -1"},
    {R"("min_p":2)", "min_p", "0 to 1"},
    {R"("repetition_penalty":0)", "repetition_penalty", "0.01 to 10"},
    {R"("presence_penalty":3)", "presence_penalty", "-2 to 2"},
    {R"("frequency_penalty":[])", "frequency_penalty", "an array of 0"},
    {R"("n":0)", "n", "1 to 128"},
    {R"("n":129)", "n", "1 to 128"},
    {R"("best_of":4)", "best_of", "not supported"},
    {R"("seed":"a")", "seed", "an integer"},
    {R"("stop":[1])", "stop", "up to 16 strings"},
    {R"("stop":"")", "stop", "1 to 512 bytes"},
    {R"("logprobs":21)", "logprobs", "0 to 20"},
    {R"("logprobs":true)", "logprobs", "an integer"},
    {R"("logit_bias":{"x":1})", "logit_bias", "the entry 'x'"},
    {R"("logit_bias":{"5":101})", "logit_bias", "-100 to 100"},
    {R"("logit_bias":{"100000":1})", "logit_bias", "the vocabulary ends at 258"},
    {R"("stream":1)", "stream", "true or false"},
    {R"("stream_options":{"include_usage":true})", "stream_options", "only with 'stream': true"},
    {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage",
     "true or false"},
    {R"("min_tokens":5,"max_tokens":4)", "min_tokens", "more than 'max_tokens'"},
    {R"("cache_salt":7)", "cache_salt", "a string"},
    {R"("kv_codec":8)", "kv_codec", "a string"},
    {R"("kv_codec":"k8v8")", "kv_codec", "writes KV in raw16 only"},
    {R"("kv_codec":"")", "kv_codec", "writes KV in raw16 only"},
    {R"("tools":[{}])", "tools", "not supported"},
    {R"("response_format":{"type":"json_object"})", "response_format", "not supported"},
    {R"("suffix":"end")", "suffix", "not supported"},
    {R"("model":5)", "model", "a string"},
};

TEST(Errors, FieldsOutOfRangeNameTheFieldAndTheRange) {
    TestServer t;
    HttpClient client = t.client();  // one connection: an error must not cost it
    for (const Bad& bad : kBad) {
        SCOPED_TRACE(bad.fields);
        const std::string body = std::string(R"({"prompt":"x",)") + bad.fields + "}";
        const auto reply = client.request("POST", "/v1/completions", body);
        ASSERT_TRUE(reply.ok());
        const Json error = error_of(*reply, 400);
        EXPECT_EQ(error["param"], bad.param);
        EXPECT_NE(error["message"].get<std::string>().find(bad.message), std::string::npos)
            << error["message"];
        EXPECT_EQ(error["type"], "invalid_request_error");
    }
    EXPECT_EQ(t.server->connections(), 1u);
    EXPECT_TRUE(t.engine.requests().empty());
}

TEST(Errors, PromptsOfTheWrongForm) {
    TestServer t;
    for (const char* prompt :
         {"5", "null", "{}", "[1,\"a\"]", "[\"a\",1]", "[[1],\"a\",[[2]]]", "[-1]", "[1.5]",
          "[99999999999]", "[300]", "[]", "\"\"", "[\"a\",\"\"]", "[[]]", "true"}) {
        SCOPED_TRACE(prompt);
        const auto reply = t.post("/v1/completions", std::string(R"({"prompt":)") + prompt + "}");
        const std::string param = error_of(reply, 400)["param"].get<std::string>();
        EXPECT_TRUE(param.starts_with("prompt")) << param;
    }
    EXPECT_EQ(error_of(t.post("/v1/completions", "{}"), 400)["param"], "prompt");
}

TEST(Errors, MessagesOfTheWrongForm) {
    TestServer t;
    const std::pair<const char*, const char*> cases[] = {
        {R"("hi")", "messages"},
        {"[]", "messages"},
        {"[1]", "messages[0]"},
        {R"([{"content":"x"}])", "messages[0]"},
        {R"([{"role":"wizard","content":"x"}])", "messages[0].role"},
        {R"([{"role":"user"}])", "messages[0].content"},
        {R"([{"role":"user","content":5}])", "messages[0].content"},
        {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
        {R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])",
         "messages[0].content[0]"},
    };
    for (const auto& [messages, param] : cases) {
        SCOPED_TRACE(messages);
        const auto reply =
            t.post("/v1/chat/completions", std::string(R"({"messages":)") + messages + "}");
        EXPECT_EQ(error_of(reply, 400)["param"], param);
    }
}

TEST(Errors, BodiesThatAreNoJsonObject) {
    TestServer t;
    const std::string deep_array(100'000, '[');
    std::string deep_object;
    for (int i = 0; i < 100'000; ++i) deep_object += R"({"a":)";
    for (const std::string& body :
         {std::string("{"), std::string("nonsense"), std::string("[1]"), std::string("\"x\""),
          std::string("{\"prompt\":\"a\"} trailing"), std::string("{\"prompt\":\"\xff\xfe\"}"),
          std::string(R"({"prompt":"\ud800"})"), std::string(R"({"prompt":"\udc00x"})"),
          std::string(R"({"prompt":"x","temperature":1e999})"), std::string("   "), deep_array,
          deep_object, R"({"prompt":)" + deep_array, std::string("{\"prompt\":\"a\0b\"}", 16)}) {
        SCOPED_TRACE(body.substr(0, 60));
        const auto reply = t.post("/v1/completions", body);
        const Json error = error_of(reply, 400);
        EXPECT_EQ(error["code"], "invalid_json");
        EXPECT_LT(reply.body.size(), 1000u);
    }
}

TEST(Errors, PromptOverTheContextNamesBothNumbers) {
    TestServer t;
    const std::string prompt(FakeEngine::kContext, 'x');
    for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
        const Json body = {{"prompt", prompt},
                           {"messages", {{{"role", "user"}, {"content", prompt}}}},
                           {"max_tokens", 7}};
        const Json error = error_of(t.post(path, body.dump()), 400);
        EXPECT_EQ(error["code"], "context_length_exceeded");
        const auto message = error["message"].get<std::string>();
        EXPECT_NE(message.find("4096 tokens"), std::string::npos) << message;
        EXPECT_NE(message.find("7 to generate"), std::string::npos) << message;
    }
    EXPECT_TRUE(t.engine.requests().empty());  // before any work
}

TEST(Errors, UnknownModelPathAndMethod) {
    TestServer t;
    const auto model = t.post("/v1/completions", R"({"model":"gpt-9","prompt":"x"})");
    const Json error = error_of(model, 404);
    EXPECT_EQ(error["code"], "model_not_found");
    EXPECT_NE(error["message"].get<std::string>().find("'fake'"), std::string::npos);
    EXPECT_EQ(error_of(t.get("/v1/models/gpt-9"), 404)["code"], "model_not_found");
    EXPECT_EQ(error_of(t.get("/v2/nothing"), 404)["code"], "unknown_path");
    const auto method = t.get("/v1/completions");
    EXPECT_EQ(error_of(method, 405)["code"], "method_not_allowed");
    EXPECT_EQ(method.header("allow"), "POST");
}

TEST(Errors, AFullQueueIs429WithRetryAfter) {
    TestServer t;
    t.engine.refuse(make_error(Code::busy, "256 requests are waiting already"));
    const auto reply = t.post("/v1/completions", R"({"prompt":"x"})");
    EXPECT_EQ(error_of(reply, 429)["type"], "rate_limit_error");
    EXPECT_EQ(reply.header("retry-after"), "1");
}

TEST(Errors, MoreChoicesThanTheQueueHoldsAreNotToldToTryAgain) {
    TestServer t;
    t.engine.set_requests_max(3);
    const auto reply = t.post("/v1/completions", R"({"prompt":["x","y"],"n":2})");
    const Json error = error_of(reply, 400);
    EXPECT_EQ(error["param"], "n");
    EXPECT_NE(error["message"].get<std::string>().find("takes 3"), std::string::npos);
    EXPECT_TRUE(t.engine.requests().empty());
    EXPECT_EQ(t.post("/v1/completions", R"({"prompt":"x","n":3})").status, 200);
}

TEST(Errors, AFailureBeforeTheFirstTokenOfAStreamIsAStatus) {
    TestServer t;
    t.engine.refuse(make_error(Code::invalid, "no"));
    const auto reply = t.post("/v1/completions", R"({"prompt":"x","stream":true})");
    error_of(reply, 400);
    EXPECT_EQ(reply.header("content-type"), "application/json");
}

TEST(Errors, AFailureLaterIsAnEventOfTheStream) {
    TestServer t;
    t.engine.hold();  // after one token of each choice
    std::vector<std::string> events;
    const auto reply = t.client().stream(
        "/v1/completions", R"({"prompt":"x","stream":true,"n":2})", [&](std::string_view data) {
            if (events.empty()) {
                t.engine.fail_later(make_error(Code::bug, "the graph broke"));
                t.engine.release();
            }
            events.emplace_back(data);
            return true;
        });
    ASSERT_TRUE(reply.ok() && reply->status == 200);
    ASSERT_GE(events.size(), 3u);
    EXPECT_EQ(parsed(events[events.size() - 2])["error"]["message"], "the graph broke");
    EXPECT_EQ(events.back(), "[DONE]");
    EXPECT_TRUE(t.engine.wait_running(0));  // the other choice was cancelled or failed too
}

TEST(Errors, AFailureOfAWholeAnswerIsAStatus) {
    TestServer t;
    t.engine.fail_later(make_error(Code::bug, "the graph broke"));
    const auto reply = t.post("/v1/completions", R"({"prompt":"x"})");
    EXPECT_EQ(error_of(reply, 500)["type"], "server_error");
    t.engine.fail_later(make_error(Code::timeout, "too slow"));
    error_of(t.post("/v1/completions", R"({"prompt":"x"})"), 504);
}

}  // namespace
}  // namespace quire::server
