// The parsers alone: defaults, forms, and random damage to good bodies.
#include "server/openai_request.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "server/admin_request.h"
#include "server/json_text.h"
#include "server/sse_reader.h"

namespace quire::server {
namespace {

TEST(OpenaiRequest, Defaults) {
    const auto body = parse_completion(R"({"prompt":"x"})");
    ASSERT_TRUE(body.ok());
    const GenerationBody& b = body.value();
    EXPECT_EQ(b.sampling.temperature, 1.0f);
    EXPECT_EQ(b.sampling.logprobs, -1);
    EXPECT_FALSE(b.max_tokens.has_value());
    EXPECT_EQ(b.n, 1u);
    EXPECT_FALSE(b.seeded);
    EXPECT_FALSE(b.stream);
}

TEST(OpenaiRequest, NullsAreAbsent) {
    const auto body = parse_completion(R"({"prompt":"x","temperature":null,"stop":null,
        "max_tokens":null,"n":null,"stream":null,"logit_bias":null,"seed":null,"tools":null})");
    ASSERT_TRUE(body.ok()) << body.error().message;
    EXPECT_TRUE(body.value().ignored_fields.empty());
}

TEST(OpenaiRequest, WholeReals) {
    const auto body = parse_completion(R"({"prompt":"x","max_tokens":16.0})");
    ASSERT_TRUE(body.ok());
    EXPECT_EQ(body.value().max_tokens, 16u);
}

TEST(OpenaiRequest, HarmlessValuesOfUnsupportedFields) {
    EXPECT_TRUE(parse_chat(R"({"messages":[{"role":"user","content":"x"}],"tools":[],
        "tool_choice":"none","response_format":{"type":"text"}})")
                    .ok());
}

TEST(OpenaiRequest, ChatLogprobs) {
    const std::string head = R"({"messages":[{"role":"user","content":"x"}],)";
    EXPECT_EQ(parse_chat(head + R"("logprobs":true})").value().sampling.logprobs, 0);
    EXPECT_EQ(parse_chat(head + R"("logprobs":false})").value().sampling.logprobs, -1);
    EXPECT_EQ(parse_chat(head + R"("top_logprobs":3})").error().param, "top_logprobs");
}

TEST(OpenaiRequest, UnknownFieldsAreBounded) {
    std::string text = R"({"prompt":"x")";
    for (int i = 0; i < 1000; ++i) text += ",\"field" + std::to_string(i) + "\":1";
    const auto body = parse_completion(text + "}");
    ASSERT_TRUE(body.ok());
    EXPECT_EQ(body.value().ignored_fields.size(), 16u);
}

TEST(OpenaiRequest, EchoAllowsNothingToGenerate) {
    EXPECT_TRUE(parse_completion(R"({"prompt":"x","echo":true,"max_tokens":0})").ok());
    EXPECT_FALSE(parse_completion(R"({"prompt":"x","max_tokens":0})").ok());
}

// Damaged bodies are refused or understood; the sanitizers watch the rest.
TEST(OpenaiRequest, SurvivesRandomDamage) {
    const std::string good[] = {
        R"({"model":"m","prompt":["a","b"],"stop":["x"],"logit_bias":{"5":-1},"n":2,"seed":9})",
        R"({"messages":[{"role":"user","content":[{"type":"text","text":"\u00e9\ud83d\ude00"}]}],
            "stream":true,"stream_options":{"include_usage":true},"temperature":0.5})",
        R"({"tiers":["g1","g3.5"],"write_back":true})", R"({"tokens":[1,2,3],"model":"m"})"};
    for (uint32_t seed = 0; seed < 4000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        std::string text = good[seed % std::size(good)];
        const size_t hits = 1 + random() % 4;
        for (size_t i = 0; i < hits; ++i) {
            const size_t at = random() % text.size();
            switch (random() % 4) {
                case 0:
                    text[at] = static_cast<char>(random());
                    break;
                case 1:
                    text.erase(at, 1 + random() % 5);
                    break;
                case 2:
                    text.insert(at, 1, "[]{}\",:\\0-9eE"[random() % 12]);
                    break;
                default:
                    text.insert(at, text.substr(at, random() % 12));
                    break;
            }
            if (text.empty()) text = "x";
        }
        for (auto parse : {parse_completion, parse_chat, parse_explain}) {
            const auto body = parse(text);
            if (body.ok()) continue;
            EXPECT_FALSE(body.error().message.empty());
            EXPECT_EQ(Json::parse(error_body(body.error())).size(), 1u);
        }
        (void)parse_flush(text).ok();
        (void)parse_tokenize(text).ok();
        (void)parse_detokenize(text).ok();
    }
}

TEST(JsonText, ShortenCutsBetweenCharacters) {
    EXPECT_EQ(shorten("abc", 3), "abc");
    EXPECT_EQ(shorten("ab\xC3\xA9", 3), "ab...");
}

TEST(SseReader, CutsEventsAnywhere) {
    const std::string stream =
        ": hi\n\ndata: a\n\ndata: b\ndata: c\r\n\nevent: x\n\ndata:[DONE]\n\n";
    for (size_t cut = 1; cut < stream.size(); ++cut) {
        SseReader reader;
        std::string got;
        for (size_t at = 0; at < stream.size(); at += cut) {
            reader.feed(std::string_view(stream).substr(at, cut));
            while (auto data = reader.next()) got += *data + "|";
        }
        EXPECT_EQ(got, "a|b\nc|[DONE]|") << cut;
    }
}

}  // namespace
}  // namespace quire::server
