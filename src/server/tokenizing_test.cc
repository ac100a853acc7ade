// Prompts that take long to tokenize, or could: they are bounded, given up when nobody wants them,
// and hold up nobody but each other.
#include <chrono>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "server/test_server.h"

namespace quire::server {
namespace {

constexpr int64_t kMillisecond_ns = 1'000'000;

struct Call {
    const char* path;
    const char* body;
};
constexpr Call kCalls[] = {
    {"/v1/completions", R"({"prompt":"x","max_tokens":1})"},
    {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}],"max_tokens":1})"},
    {"/tokenize", R"({"prompt":"x"})"},
    {"/v1/cache/explain", R"({"prompt":"x"})"},
};

std::string raw(const Call& call) {
    const std::string body(call.body);
    return "POST " + std::string(call.path) +
           " HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
           body;
}

TEST(Tokenizing, IsGivenUpWhenTheClientLeaves) {
    for (const Call& call : kCalls) {
        SCOPED_TRACE(call.path);
        TestServer t;
        t.engine.hold_tokenizing();
        RawSocket socket(t.server->port());
        ASSERT_TRUE(socket.send(raw(call)));
        ASSERT_TRUE(t.engine.wait_tokenizing(1));
        socket.close();
        EXPECT_TRUE(t.engine.wait_tokenizing(0));
        EXPECT_TRUE(t.engine.requests().empty());
    }
}

TEST(Tokenizing, IsGivenUpAtTheDeadline) {
    ServerOptions options;
    options.request_timeout_ns = 50 * kMillisecond_ns;
    for (const Call& call : kCalls) {
        SCOPED_TRACE(call.path);
        TestServer t(options);
        t.engine.hold_tokenizing();
        EXPECT_EQ(error_of(t.post(call.path, call.body), 504)["code"], "timeout");
    }
}

// More than there are workers: those that wait for one are given up too.
TEST(Tokenizing, EndsWithTheServer) {
    for (const Call& call : kCalls) {
        SCOPED_TRACE(call.path);
        TestServer t;
        t.engine.hold_tokenizing();
        std::vector<std::unique_ptr<RawSocket>> sockets;
        for (int i = 0; i < 6; ++i) {
            sockets.push_back(std::make_unique<RawSocket>(t.server->port()));
            ASSERT_TRUE(sockets.back()->send(raw(call)));
        }
        ASSERT_TRUE(t.engine.wait_tokenizing(2));
        while (t.server->connections() < 6) std::this_thread::yield();
        t.server->drain(10 * kMillisecond_ns);
        for (auto& socket : sockets) {
            const std::string reply = socket->read_all();
            // A request that had not been read when the drain began is closed as idle.
            EXPECT_TRUE(reply.empty() || reply.find(" 503 ") != std::string::npos) << reply;
        }
        t.server.reset();
        EXPECT_TRUE(t.engine.wait_tokenizing(0));
    }
}

TEST(Tokenizing, DoesNotHoldUpProbesMetricsAndTheCachesState) {
    TestServer t;
    t.engine.hold_tokenizing();
    std::vector<std::unique_ptr<RawSocket>> sockets;
    for (int i = 0; i < 4; ++i) {
        sockets.push_back(std::make_unique<RawSocket>(t.server->port()));
        ASSERT_TRUE(sockets.back()->send(raw(kCalls[i])));
    }
    ASSERT_TRUE(t.engine.wait_tokenizing(2));
    for (const char* path :
         {"/health", "/ready", "/version", "/metrics", "/v1/cache", "/v1/models"})
        EXPECT_EQ(t.get(path).status, 200) << path;
    EXPECT_EQ(t.post("/v1/cache/flush", "{}").status, 200);
    t.engine.release_tokenizing();
}

TEST(Tokenizing, ATextThatCannotFitIsNotTokenized) {
    TestServer t;
    const std::string text(4 * FakeEngine::kContext + 100, ' ');
    const Json body = {{"prompt", text}, {"messages", {{{"role", "user"}, {"content", text}}}}};
    for (const char* path : {"/v1/completions", "/v1/chat/completions", "/v1/cache/explain"}) {
        SCOPED_TRACE(path);
        const Json error = error_of(t.post(path, body.dump()), 400);
        EXPECT_EQ(error["code"], "context_length_exceeded");
        EXPECT_NE(error["message"].get<std::string>().find("4096 tokens"), std::string::npos);
    }
    EXPECT_EQ(t.engine.tokenized_bytes(), 0u);
    EXPECT_EQ(t.post("/tokenize", body.dump()).status, 200);  // counts whatever it is given
}

}  // namespace
}  // namespace quire::server
