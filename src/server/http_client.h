// A small blocking HTTP/1.1 client: one connection, whole replies or Server-Sent Events.
//
// For `quire chat`, `quire doctor`, the benches and the tests. Plain HTTP only. One thread at a
// time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace quire::server {

struct Url {
    std::string host;
    uint16_t port = 80;
    std::string path;  // without a trailing slash; may be empty
};

// invalid: not http://HOST[:PORT][/PATH].
Result<Url> parse_url(std::string_view text);

struct ClientReply {
    int status = 0;
    std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
    std::string body;

    // The first header of that (lower-case) name; empty if there is none.
    std::string_view header(std::string_view name) const;
};

class HttpClient {
 public:
    // Connects lazily, and again when the server has closed the connection between requests.
    // `api_key` empty: none is sent.
    HttpClient(Url url, std::string api_key, int64_t timeout_ns = 600'000'000'000);
    ~HttpClient();
    HttpClient(HttpClient&&) noexcept;

    // `body` is sent as JSON unless empty. io: no connection, or it broke; timeout.
    Result<ClientReply> request(std::string_view method, std::string_view path,
                                std::string_view body = {});

    // Called with the data of one event ("{...}" or "[DONE]"); false stops and closes the
    // connection.
    using OnEvent = std::function<bool(std::string_view data)>;
    // Streams a reply of status 200; any other status comes back whole, as from request().
    Result<ClientReply> stream(std::string_view path, std::string_view body,
                               const OnEvent& on_event);

    void close();

 private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace quire::server
