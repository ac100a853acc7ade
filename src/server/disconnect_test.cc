// A client that leaves cancels its work, whatever it was waiting for.
#include <gtest/gtest.h>

#include "server/test_server.h"

namespace quire::server {
namespace {

std::string completion(const char* fields) {
    const std::string body = std::string(R"({"prompt":"x","max_tokens":1000)") + fields + "}";
    return "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
}

TEST(Disconnect, DuringAStream) {
    TestServer t;
    t.engine.hold();
    RawSocket socket(t.server->port());
    ASSERT_TRUE(socket.send(completion(R"(,"stream":true)")));
    socket.read_until("\"text\":\"one\"");
    ASSERT_TRUE(t.engine.wait_running(1));
    socket.close();
    EXPECT_TRUE(t.engine.wait_cancelled(1));
    EXPECT_TRUE(t.engine.wait_running(0));
}

TEST(Disconnect, WhileWaitingForAWholeAnswer) {
    TestServer t;
    t.engine.hold();
    RawSocket socket(t.server->port());
    ASSERT_TRUE(socket.send(completion("")));
    ASSERT_TRUE(t.engine.wait_running(1));
    socket.close();
    EXPECT_TRUE(t.engine.wait_cancelled(1));
}

TEST(Disconnect, ByResetAndByHalfClose) {
    TestServer t;
    t.engine.hold();
    RawSocket resets(t.server->port());
    ASSERT_TRUE(resets.send(completion(R"(,"stream":true)")));
    resets.read_until("\"text\":\"one\"");
    resets.reset();
    EXPECT_TRUE(t.engine.wait_cancelled(1));
    RawSocket halves(t.server->port());
    ASSERT_TRUE(halves.send(completion(R"(,"stream":true)")));
    halves.read_until("\"text\":\"one\"");
    halves.half_close();
    EXPECT_TRUE(t.engine.wait_cancelled(2));
}

TEST(Disconnect, CancelsEveryChoice) {
    TestServer t;
    t.engine.hold();
    RawSocket socket(t.server->port());
    ASSERT_TRUE(socket.send(completion(R"(,"n":5)")));
    ASSERT_TRUE(t.engine.wait_running(5));
    socket.close();
    EXPECT_TRUE(t.engine.wait_cancelled(5));
}

TEST(Disconnect, LeavesOthersAlone) {
    TestServer t;
    t.engine.hold();
    RawSocket leaves(t.server->port());
    RawSocket stays(t.server->port());
    ASSERT_TRUE(leaves.send(completion(R"(,"stream":true)")));
    ASSERT_TRUE(stays.send(completion(R"(,"stream":true)")));
    leaves.read_until("\"text\":\"one\"");
    stays.read_until("\"text\":\"one\"");
    leaves.close();
    ASSERT_TRUE(t.engine.wait_cancelled(1));
    t.engine.release();
    EXPECT_NE(stays.read_until("[DONE]").find("[DONE]"), std::string::npos);
    EXPECT_EQ(t.engine.cancelled(), 1u);
}

// Many at once, closing at any moment of their requests' lives: nothing is left behind.
TEST(Disconnect, AtAnyMoment) {
    TestServer t;
    for (int round = 0; round < 15; ++round) {
        std::vector<std::unique_ptr<RawSocket>> sockets;
        for (int i = 0; i < 8; ++i) {
            sockets.push_back(std::make_unique<RawSocket>(t.server->port()));
            const std::string request = completion(i % 2 == 0 ? R"(,"stream":true,"n":2)" : "");
            const size_t cut = static_cast<size_t>(round * 8 + i) % 40 < 8
                                   ? request.size() * static_cast<size_t>(i) / 8
                                   : request.size();
            sockets.back()->send(std::string_view(request).substr(0, cut));
        }
        for (size_t i = 0; i < sockets.size(); ++i) {
            if (i % 3 == 0) sockets[i]->reset();
        }
    }
    EXPECT_TRUE(t.engine.wait_running(0));
    EXPECT_EQ(t.get("/health").status, 200);
}

}  // namespace
}  // namespace quire::server
