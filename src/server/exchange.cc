#include "server/exchange.h"

#include <cstdio>
#include <utility>

namespace quire::server {

Exchange::Exchange(Connection& connection, const HttpRequest& request, bool may_keep_alive)
    : connection_(connection),
      request_(request),
      keep_alive_(may_keep_alive && request.keep_alive) {}

awaitable<bool> Exchange::reply(HttpReply reply) {
    status_ = reply.status;
    std::string bytes =
        reply_head(reply, request_, static_cast<int64_t>(reply.body.size()), keep_alive_);
    if (request_.method != "HEAD") bytes += reply.body;
    const bool sent = co_await connection_.write(bytes);
    if (!sent) keep_alive_ = false;
    co_return sent;
}

awaitable<bool> Exchange::begin_stream(std::string content_type) {
    HttpReply head;
    head.content_type = std::move(content_type);
    head.headers.emplace_back("Cache-Control", "no-cache");
    head.headers.emplace_back("X-Accel-Buffering", "no");  // nginx would hold the stream back
    status_ = head.status;
    if (!request_.http11) keep_alive_ = false;  // the end of the body is the end of the connection
    const std::string bytes = reply_head(head, request_, -1, keep_alive_);
    const bool sent = co_await connection_.write(bytes);
    if (!sent) keep_alive_ = false;
    co_return sent;
}

awaitable<bool> Exchange::write(std::string_view bytes) {
    if (bytes.empty()) co_return true;  // an empty chunk would end the body
    std::string framed;
    if (request_.http11) {
        char size[24];
        std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
        framed.append(size).append(bytes).append("\r\n");
    } else {
        framed = bytes;
    }
    const bool sent = co_await connection_.write(framed);
    if (!sent) keep_alive_ = false;
    co_return sent;
}

awaitable<bool> Exchange::end_stream() {
    if (!request_.http11) co_return true;
    const bool sent = co_await connection_.write("0\r\n\r\n");
    if (!sent) keep_alive_ = false;
    co_return sent;
}

}  // namespace quire::server
