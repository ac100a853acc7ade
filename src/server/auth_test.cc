// Keys, tenants, and what a server without keys may listen on.
#include <gtest/gtest.h>

#include "server/test_server.h"

namespace quire::server {
namespace {

ServerOptions two_tenants() {
    ServerOptions options;
    options.keys = {{"red-key-1", "red"}, {"blue-key-1", "blue"}, {"admin-key", "admin"}};
    return options;
}

constexpr char kBody[] = R"({"prompt":"hello","max_tokens":1})";

TEST(Auth, KeysGuardEverythingButProbes) {
    TestServer t(two_tenants());
    for (const char* path : {"/health", "/ready", "/version", "/metrics"}) {
        EXPECT_EQ(t.get(path).status, 200) << path;
    }
    for (const char* path : {"/v1/models", "/v1/models/fake", "/v1/cache"}) {
        EXPECT_EQ(error_of(t.get(path), 401)["code"], "invalid_api_key") << path;
        EXPECT_EQ(t.get(path, "red-key-1").status, 200) << path;
    }
    for (const char* path : {"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize",
                             "/v1/cache/explain", "/v1/cache/flush"}) {
        const auto reply = t.post(path, kBody);
        EXPECT_EQ(error_of(reply, 401)["type"], "authentication_error") << path;
        EXPECT_EQ(reply.header("www-authenticate"), "Bearer");
    }
}

TEST(Auth, MetricsMayNeedAKey) {
    ServerOptions options = two_tenants();
    options.metrics_need_key = true;
    TestServer t(options);
    EXPECT_EQ(t.get("/metrics").status, 401);
    EXPECT_EQ(t.get("/metrics", "blue-key-1").status, 200);
}

TEST(Auth, WrongKeysAreRefused) {
    TestServer t(two_tenants());
    for (const char* key : {"red-key-", "red-key-12", "RED-KEY-1", "x", "red"}) {
        EXPECT_EQ(t.post("/v1/completions", kBody, key).status, 401) << key;
    }
    RawSocket socket(t.server->port());
    ASSERT_TRUE(
        socket.send("GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Basic cmVk\r\n"
                    "Connection: close\r\n\r\n"));
    EXPECT_NE(socket.read_all().find(" 401 "), std::string::npos);
}

TEST(Auth, AKeyStandsForItsTenant) {
    TestServer t(two_tenants());
    EXPECT_EQ(t.post("/v1/completions", kBody, "red-key-1").status, 200);
    EXPECT_EQ(t.post("/v1/completions", kBody, "blue-key-1").status, 200);
    const auto requests = t.engine.requests();
    EXPECT_EQ(requests.at(0).tenant, "red");
    EXPECT_EQ(requests.at(1).tenant, "blue");
}

TEST(Auth, ATenantDoesNotLearnAboutOthers) {
    TestServer t(two_tenants());
    const auto reply = t.post("/v1/cache/explain", kBody, "blue-key-1");
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(parsed(reply.body)["reason"], "never_seen");
    EXPECT_EQ(reply.body.find("red"), std::string::npos) << reply.body;
    EXPECT_EQ(reply.body.find("secret"), std::string::npos) << reply.body;
    const auto admin = t.post("/v1/cache/explain", kBody, "admin-key");
    EXPECT_EQ(parsed(admin.body)["reason"], "other_tenant");
}

TEST(Auth, OnlyTheAdminFlushesWhatBelongsToSeveral) {
    TestServer t(two_tenants());
    EXPECT_EQ(error_of(t.post("/v1/cache/flush", "{}", "red-key-1"), 403)["code"], "admin_only");
    EXPECT_EQ(t.post("/v1/cache/flush", "{}", "admin-key").status, 200);
    ServerOptions one;
    one.keys = {{"only-key-1", "red"}};
    TestServer alone(one);
    EXPECT_EQ(alone.post("/v1/cache/flush", "{}", "only-key-1").status, 200);
}

TEST(Auth, OffLoopbackNeedsAKey) {
    FakeEngine engine;
    Metrics metrics;
    ServerOptions options;
    options.port = 0;
    for (const char* host : {"0.0.0.0", "::"}) {
        options.host = host;
        options.keys.clear();
        const auto refused = Server::start(engine, metrics, options);
        ASSERT_FALSE(refused.ok()) << host;
        EXPECT_EQ(refused.error().code, Code::invalid);
        EXPECT_NE(refused.error().message.find("--api-keys"), std::string::npos);
    }
    options.host = "0.0.0.0";
    options.keys = {{"some-key-1", ""}};
    EXPECT_TRUE(Server::start(engine, metrics, options).ok());
    options.host = "not-a-host.invalid";
    EXPECT_FALSE(Server::start(engine, metrics, options).ok());
}

}  // namespace
}  // namespace quire::server
