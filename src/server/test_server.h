// A server over a FakeEngine on a free loopback port, and raw sockets to it, for the tests.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/fake_engine.h"
#include "server/http_client.h"
#include "server/json_text.h"
#include "server/server.h"

namespace quire::server {

class TestServer {
 public:
    explicit TestServer(ServerOptions options = {});

    HttpClient client(std::string key = {}) const;
    // One request on a connection of its own. Fails the test when there is no reply.
    ClientReply get(std::string_view path, std::string key = {}) const;
    ClientReply post(std::string_view path, std::string_view body, std::string key = {}) const;
    // The parsed events of a stream, [DONE] as the string "[DONE]".
    std::vector<Json> stream(std::string_view path, std::string_view body) const;

    FakeEngine engine;
    Metrics metrics;
    std::unique_ptr<Server> server;
};

// A plain socket, to send what no decent client would.
class RawSocket {
 public:
    explicit RawSocket(uint16_t port);
    ~RawSocket();
    RawSocket(const RawSocket&) = delete;
    RawSocket& operator=(const RawSocket&) = delete;

    // False: the server has closed its side.
    bool send(std::string_view bytes);
    // Reads until `mark` has come or the server closes; what has come, `mark` included.
    std::string read_until(std::string_view mark);
    std::string read_all();
    void close();
    // Closes so that the server sees a reset instead of an end.
    void reset();
    void half_close();

 private:
    int fd_;
    std::string buffer_;
};

Json parsed(const std::string& text);
// Fails the test unless the reply has this status and OpenAI's error object; returns the object.
Json error_of(const ClientReply& reply, int status);

}  // namespace quire::server
