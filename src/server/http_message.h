// A request and a reply as the handlers see them: no sockets, no library types.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api_error.h"

namespace quire::server {

struct HttpRequest {
    std::string method;
    std::string path;   // without the query
    std::string query;  // after '?', undecoded
    std::string body;
    std::string authorization;
    std::string id;      // the client's x-request-id when usable, else one of ours
    std::string tenant;  // set by the key check
    bool http11 = true;
    bool keep_alive = true;
    int64_t received_ns = 0;  // when the header was complete
};

struct HttpReply {
    int status = 200;
    std::string content_type = "application/json";
    std::string body;
    std::vector<std::pair<std::string, std::string>> headers;
};

HttpReply json_reply(std::string body, int status = 200);
HttpReply error_reply(const ApiError& error);

// The status line and headers of a reply, up to and with the empty line. `body_bytes` < 0: the
// length is not known and the body follows in chunks (HTTP/1.1) or until the connection closes
// (HTTP/1.0).
std::string reply_head(const HttpReply& reply, const HttpRequest& request, int64_t body_bytes,
                       bool keep_alive);

// A client's request id, if it is short and printable; otherwise a fresh random one.
std::string usable_request_id(std::string_view given);
// 16 random hex digits.
std::string random_id();

}  // namespace quire::server
