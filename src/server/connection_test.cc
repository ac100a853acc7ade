// The HTTP of it: keep-alive, pipelining, framing, limits and time-outs, over raw sockets.
#include <gtest/gtest.h>

#include "server/test_server.h"

namespace quire::server {
namespace {

constexpr int64_t kMs = 1'000'000;

std::string post(std::string_view path, std::string_view body, std::string_view headers = {}) {
    return "POST " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n" + std::string(headers) +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

constexpr char kGetHealth[] = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
constexpr char kHealthy[] = R"({"status":"ok"})";

int status_of(const std::string& reply) {
    return reply.size() > 12 ? std::atoi(reply.c_str() + 9) : 0;
}

TEST(Connection, CountsResponsesByRouteAndCode) {
    TestServer t;
    t.get("/v1/models");
    t.get("/v1/models/nobody");
    t.get("/v1/models/nobody-else");
    t.get("/surely/not/here");
    t.get("/v1/completions");  // only POST
    RawSocket raw(t.server->port());
    ASSERT_TRUE(raw.send("nonsense\r\n\r\n"));
    raw.read_all();
    const std::string text = t.get("/metrics").body;
    const auto has = [&](std::string_view labels, int count) {
        const std::string line = "quire_http_responses_total{" + std::string(labels) + "} " +
                                 std::to_string(count) + "\n";
        EXPECT_NE(text.find(line), std::string::npos) << line;
    };
    has(R"(route="/v1/models",code="200")", 1);
    has(R"(route="/v1/models/*",code="404")", 2);
    has(R"(route="other",code="404")", 1);
    has(R"(route="other",code="405")", 1);
    has(R"(route="other",code="400")", 1);
    has(R"(route="/v1/completions",code="405")", 0);
}

TEST(Connection, KeepsAliveAndServesPipelinedRequestsInOrder) {
    TestServer t;
    RawSocket socket(t.server->port());
    const std::string two = std::string(kGetHealth) + "GET /nope HTTP/1.1\r\nHost: x\r\n\r\n";
    ASSERT_TRUE(socket.send(two + post("/v1/completions", R"({"prompt":"x","max_tokens":1})")));
    EXPECT_EQ(status_of(socket.read_until(kHealthy)), 200);
    EXPECT_EQ(status_of(socket.read_until("\"unknown_path\"}}")), 404);
    EXPECT_EQ(status_of(socket.read_until("\"choices\"")), 200);
}

TEST(Connection, ARequestPipelinedDuringAStreamIsServedAfterIt) {
    TestServer t;
    t.engine.hold();
    RawSocket socket(t.server->port());
    ASSERT_TRUE(
        socket.send(post("/v1/completions", R"({"prompt":"x","max_tokens":2,"stream":true})")));
    socket.read_until("\"text\":\"one\"");
    ASSERT_TRUE(socket.send(kGetHealth));
    t.engine.release();
    socket.read_until("[DONE]");
    EXPECT_NE(socket.read_until(kHealthy).find("200 OK"), std::string::npos);
    EXPECT_EQ(t.engine.cancelled(), 0u);
}

TEST(Connection, TakesChunkedBodies) {
    TestServer t;
    RawSocket socket(t.server->port());
    ASSERT_TRUE(socket.send(
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        "Connection: close\r\n\r\n"
        "a\r\n{\"prompt\":\r\n16\r\n\"chunky\",\"max_tokens\":\r\n2\r\n1}\r\n0\r\n\r\n"));
    const std::string reply = socket.read_all();
    EXPECT_EQ(status_of(reply), 200) << reply;
    EXPECT_EQ(t.engine.requests().at(0).prompt.size(), 6u);
}

TEST(Connection, ServesHttp10WithoutChunks) {
    TestServer t;
    RawSocket socket(t.server->port());
    const std::string body = R"({"prompt":"x","max_tokens":2,"stream":true})";
    ASSERT_TRUE(socket.send("POST /v1/completions HTTP/1.0\r\nContent-Length: " +
                            std::to_string(body.size()) + "\r\n\r\n" + body));
    const std::string reply = socket.read_all();  // ends because the server closes
    EXPECT_TRUE(reply.starts_with("HTTP/1.0 200")) << reply;
    EXPECT_EQ(reply.find("chunked"), std::string::npos);
    EXPECT_TRUE(reply.ends_with("data: [DONE]\n\n")) << reply;
}

TEST(Connection, AnswersHeadWithoutABodyAndEchoesRequestIds) {
    TestServer t;
    RawSocket socket(t.server->port());
    ASSERT_TRUE(
        socket.send("HEAD /health HTTP/1.1\r\nHost: x\r\nX-Request-Id: abc-1\r\n"
                    "Connection: close\r\n\r\n"));
    const std::string reply = socket.read_all();
    EXPECT_NE(reply.find("X-Request-Id: abc-1\r\n"), std::string::npos) << reply;
    EXPECT_NE(reply.find("Content-Length: 15\r\n"), std::string::npos);
    EXPECT_TRUE(reply.ends_with("\r\n\r\n"));
    RawSocket other(t.server->port());
    ASSERT_TRUE(
        other.send("GET /health HTTP/1.1\r\nHost: x\r\nX-Request-Id: a b\r\n"
                   "Connection: close\r\n\r\n"));
    EXPECT_NE(other.read_all().find("X-Request-Id: req-"), std::string::npos);
}

TEST(Connection, SendsContinueWhenAsked) {
    TestServer t;
    RawSocket socket(t.server->port());
    const std::string body = R"({"prompt":"x","max_tokens":1})";
    const std::string request = post("/v1/completions", body, "Expect: 100-continue\r\n");
    ASSERT_TRUE(socket.send(request.substr(0, request.size() - body.size())));
    EXPECT_EQ(status_of(socket.read_until("\r\n\r\n")), 100);
    ASSERT_TRUE(socket.send(body));
    EXPECT_EQ(status_of(socket.read_until("\"choices\"")), 200);
}

TEST(Connection, TenMegabytesAreRefusedAndTheClientSeesIt) {
    TestServer t;
    const std::string body = Json{{"prompt", std::string(10'000'000, 'x')}}.dump();
    const ClientReply reply = t.post("/v1/completions", body);
    const Json error = error_of(reply, 413);
    EXPECT_EQ(error["code"], "body_too_large");
    EXPECT_NE(error["message"].get<std::string>().find("8388608"), std::string::npos);
}

TEST(Connection, AChunkedBodyOverTheLimitIsRefusedToo) {
    ServerOptions options;
    options.max_body_bytes = 1000;
    TestServer t(options);
    RawSocket socket(t.server->port());
    std::string request =
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (int i = 0; i < 20; ++i) request += "64\r\n" + std::string(100, ' ') + "\r\n";
    socket.send(request);
    EXPECT_EQ(status_of(socket.read_all()), 413);
}

TEST(Connection, LargeHeadersAreRefused) {
    TestServer t;
    RawSocket socket(t.server->port());
    socket.send("GET /health HTTP/1.1\r\nHost: x\r\nX-Big: " + std::string(100'000, 'x') +
                "\r\n\r\n");
    const std::string reply = socket.read_all();
    EXPECT_EQ(status_of(reply), 431) << reply;
    EXPECT_NE(reply.find("header_too_large"), std::string::npos);
}

TEST(Connection, GarbageIsRefused) {
    TestServer t;
    for (const char* garbage :
         {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 tls hello\r\n\r\n", "hello\r\n\r\n",
          "GET / HTTP/9.9\r\n\r\n", "GET /\r\n\r\n",
          "POST /health HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
          "POST /health HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
          "POST /tokenize HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0"}) {
        SCOPED_TRACE(garbage);
        RawSocket socket(t.server->port());
        socket.send(garbage);
        socket.half_close();
        const int status = status_of(socket.read_all());
        EXPECT_TRUE(status == 400 || status == 0) << status;
    }
    EXPECT_EQ(t.get("/health").status, 200);
}

// Where a body ends is never guessed: one refusal, and nothing of what follows is served.
TEST(Connection, RequestsThatAProxyMayReadDifferentlyAreRefusedAndTheConnectionEnds) {
    TestServer t;
    const std::string hidden = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";
    const std::string chunked = "0\r\n\r\n" + hidden;
    for (const std::string& head : {
             std::string("Transfer-Encoding: identity\r\nHost: x"),
             std::string("Transfer-Encoding: gzip\r\nHost: x"),
             std::string("Transfer-Encoding: chunked, identity\r\nHost: x"),
             std::string("Transfer-Encoding: chunked, gzip\r\nHost: x"),
             std::string("Transfer-Encoding: gzip, chunked\r\nHost: x"),
             std::string("Transfer-Encoding: chunked, chunked\r\nHost: x"),
             std::string("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\nHost: x"),
             std::string("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\nHost: x"),
             std::string("Transfer-Encoding: xchunked\r\nHost: x"),
             std::string("Transfer-Encoding: chunked;a=b\r\nHost: x"),
             std::string("Transfer-Encoding: \"chunked\"\r\nHost: x"),
             std::string("Transfer-Encoding:\r\nHost: x"),
             std::string("Transfer-Encoding: chunked\r\nContent-Length: 5\r\nHost: x"),
             std::string("Transfer-Encoding : chunked\r\nHost: x"),
             std::string("Content-Length: +5\r\nHost: x"),
             std::string("Content-Length: 5, 5\r\nHost: x"),
             std::string("Content-Length: 0\r\nHost: x\r\nHost: y"),
             std::string("Content-Length: 0"),  // no Host
         }) {
        SCOPED_TRACE(head);
        RawSocket socket(t.server->port());
        socket.send("POST /tokenize HTTP/1.1\r\n" + head + "\r\n\r\n" + chunked);
        const std::string reply = socket.read_all();
        EXPECT_EQ(status_of(reply), 400) << reply;
        EXPECT_NE(reply.find("Connection: close"), std::string::npos) << reply;
        EXPECT_EQ(reply.find("HTTP/1.1 ", 5), std::string::npos) << reply;
    }
    RawSocket old(t.server->port());
    old.send("POST /tokenize HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked);
    EXPECT_EQ(status_of(old.read_all()), 400);
}

TEST(Connection, CompressedBodiesAreRefused) {
    TestServer t;
    for (const char* encoding : {"gzip", "br", "identity, gzip", "deflate"}) {
        RawSocket socket(t.server->port());
        socket.send(post("/tokenize", "{}", "Content-Encoding: " + std::string(encoding) + "\r\n"));
        const std::string reply = socket.read_all();
        EXPECT_EQ(status_of(reply), 415) << reply;
        EXPECT_NE(reply.find("unsupported_encoding"), std::string::npos);
    }
    RawSocket socket(t.server->port());
    socket.send(post("/tokenize", R"({"prompt":"x"})",
                     "Content-Encoding: identity\r\nTransfer-Encoding-Not: x\r\n"
                     "Connection: close\r\n"));
    EXPECT_EQ(status_of(socket.read_all()), 200);
}

TEST(Connection, ATargetMayNameTheServer) {
    TestServer t;
    const std::pair<const char*, int> targets[] = {
        {"http://x/health", 200},  {"HTTP://x:80/health?q=http://y/", 200},
        {"https://x/health", 200}, {"http://x", 404},
        {"http://x?q", 404},       {"http:///health", 200},
        {"/http://x/health", 404}};
    for (const auto& [target, status] : targets) {
        SCOPED_TRACE(target);
        RawSocket socket(t.server->port());
        ASSERT_TRUE(socket.send("GET " + std::string(target) +
                                " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
        EXPECT_EQ(status_of(socket.read_all()), status);
    }
}

TEST(Connection, SlowHeadersAndBodiesTimeOut) {
    ServerOptions options;
    options.header_timeout_ns = 50 * kMs;
    options.body_timeout_ns = 50 * kMs;
    TestServer t(options);
    RawSocket slow_header(t.server->port());
    ASSERT_TRUE(slow_header.send("GET /hea"));
    EXPECT_EQ(status_of(slow_header.read_all()), 408);
    RawSocket slow_body(t.server->port());
    ASSERT_TRUE(slow_body.send("POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{"));
    const std::string reply = slow_body.read_all();
    EXPECT_EQ(status_of(reply), 408);
    EXPECT_NE(reply.find("request_timeout"), std::string::npos);
}

TEST(Connection, IdleConnectionsAreClosed) {
    ServerOptions options;
    options.idle_timeout_ns = 50 * kMs;
    TestServer t(options);
    RawSocket never_spoke(t.server->port());
    EXPECT_EQ(never_spoke.read_all(), "");
    RawSocket spoke(t.server->port());
    ASSERT_TRUE(spoke.send(kGetHealth));
    EXPECT_EQ(status_of(spoke.read_all()), 200);  // and then the end
}

TEST(Connection, AClientThatDoesNotReadIsDropped) {
    ServerOptions options;
    options.write_timeout_ns = 50 * kMs;
    TestServer t(options);
    t.engine.hold();  // no request ends by itself
    t.engine.set_word(std::string(256 << 10, 'x'));
    RawSocket socket(t.server->port());
    // 32 MiB: far more than the sockets buffer.
    ASSERT_TRUE(socket.send(
        post("/v1/completions", R"({"prompt":"x","max_tokens":4000,"stream":true,"n":128})")));
    EXPECT_TRUE(t.engine.wait_cancelled(128));
    EXPECT_TRUE(t.engine.wait_running(0));
}

TEST(Connection, AQuietStreamSendsHeartbeats) {
    ServerOptions options;
    options.heartbeat_ns = 20 * kMs;
    TestServer t(options);
    t.engine.hold();
    RawSocket socket(t.server->port());
    ASSERT_TRUE(
        socket.send(post("/v1/completions", R"({"prompt":"x","max_tokens":2,"stream":true})")));
    EXPECT_NE(socket.read_until(": waiting\n\n").find("200 OK"), std::string::npos);
    t.engine.release();
    EXPECT_NE(socket.read_until("[DONE]").find("two"), std::string::npos);
}

TEST(Connection, TooManyConnectionsAreClosedAtOnce) {
    ServerOptions options;
    options.max_connections = 2;
    TestServer t(options);
    RawSocket a(t.server->port());
    RawSocket b(t.server->port());
    ASSERT_TRUE(a.send(kGetHealth) && b.send(kGetHealth));
    a.read_until(kHealthy);
    b.read_until(kHealthy);
    RawSocket c(t.server->port());
    EXPECT_EQ(c.read_all(), "");
    ASSERT_TRUE(a.send(kGetHealth));
    EXPECT_EQ(status_of(a.read_until(kHealthy)), 200);
}

TEST(Connection, APortInUseIsOneClearLine) {
    TestServer t;
    ServerOptions options;
    options.port = t.server->port();
    const auto second = Server::start(t.engine, t.metrics, options);
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.error().message.find("in use"), std::string::npos);
    EXPECT_NE(second.error().message.find("--port"), std::string::npos);
    EXPECT_EQ(second.error().message.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace quire::server
