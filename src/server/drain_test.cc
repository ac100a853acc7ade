// Shutting down: what runs may end, nothing new begins, and it ends in time.
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "server/test_server.h"

namespace quire::server {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr char kStream[] = R"({"prompt":"x","max_tokens":3,"stream":true})";

std::string post(std::string_view body) {
    return "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

TEST(Drain, LetsARunningStreamEndAndThenCloses) {
    TestServer t;
    t.engine.hold();
    RawSocket socket(t.server->port());
    ASSERT_TRUE(socket.send(post(kStream)));
    socket.read_until("\"text\":\"one\"");
    auto drained = std::async(std::launch::async, [&] { t.server->drain(10'000 * kMs); });
    while (!t.engine.load().draining) std::this_thread::yield();
    t.engine.release();
    EXPECT_NE(socket.read_all().find("[DONE]"), std::string::npos);  // and the connection ended
    drained.get();
    EXPECT_EQ(t.engine.cancelled(), 0u);
    EXPECT_EQ(t.server->connections(), 0u);
}

TEST(Drain, CancelsAtTheDeadlineAndSaysSo) {
    TestServer t;
    t.engine.hold();
    RawSocket socket(t.server->port());
    ASSERT_TRUE(socket.send(post(kStream)));
    socket.read_until("\"text\":\"one\"");
    t.server->drain(20 * kMs);
    const std::string rest = socket.read_all();
    EXPECT_NE(rest.find("\"draining\""), std::string::npos) << rest;
    EXPECT_EQ(t.engine.cancelled(), 1u);
}

TEST(Drain, RefusesNewConnectionsAndClosesIdleOnes) {
    TestServer t;
    RawSocket idle(t.server->port());
    ASSERT_TRUE(idle.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n"));
    idle.read_until(R"({"status":"ok"})");
    t.server->drain(10 * kMs);
    EXPECT_EQ(idle.read_all(), "");
    const auto reply = t.client().request("GET", "/health");
    EXPECT_FALSE(reply.ok());
}

// A request that was pipelined behind a running one arrives while draining.
TEST(Drain, ARequestOnAnOpenConnectionIsTurnedAway) {
    TestServer t;
    t.engine.hold();
    RawSocket socket(t.server->port());
    ASSERT_TRUE(socket.send(post(kStream)));
    socket.read_until("\"text\":\"one\"");
    RawSocket partial(t.server->port());
    const std::string second = post(kStream);
    ASSERT_TRUE(partial.send(second.substr(0, 20)));  // not idle: its request has begun
    RawSocket probe(t.server->port());
    const std::string ready = "GET /ready HTTP/1.1\r\nHost: x\r\n\r\n";
    ASSERT_TRUE(probe.send(ready.substr(0, 10)));
    while (t.server->connections() < 3) std::this_thread::yield();
    auto drained = std::async(std::launch::async, [&] { t.server->drain(10'000 * kMs); });
    while (!t.engine.load().draining) std::this_thread::yield();
    partial.send(second.substr(20));
    probe.send(ready.substr(10));
    const std::string refused = partial.read_all();
    // Whether the first bytes were seen before the drain began is up to the scheduler.
    EXPECT_TRUE(refused.empty() || refused.find("503 Service Unavailable") != std::string::npos);
    const std::string not_ready = probe.read_all();
    EXPECT_TRUE(not_ready.empty() || not_ready.find("503") != std::string::npos) << not_ready;
    t.engine.release();
    drained.get();
}

TEST(Drain, DestroyingAServerWithOpenStreamsCancelsThem) {
    TestServer t;
    t.engine.hold();
    RawSocket socket(t.server->port());
    ASSERT_TRUE(socket.send(post(kStream)));
    socket.read_until("\"text\":\"one\"");
    t.server.reset();
    EXPECT_TRUE(t.engine.wait_cancelled(1));
    socket.read_all();
}

}  // namespace
}  // namespace quire::server
