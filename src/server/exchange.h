// One request and its one reply, as a handler sees them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "server/connection.h"
#include "server/http_message.h"

namespace quire::server {

class Exchange {
 public:
    // REQUIRES: both outlive this.
    Exchange(Connection& connection, const HttpRequest& request, bool may_keep_alive);

    const HttpRequest& request() const { return request_; }

    // Exactly one of these is called, once. The awaitables give false when the client is gone.
    awaitable<bool> reply(HttpReply reply);
    awaitable<bool> begin_stream(std::string content_type);

    // After begin_stream: pieces of the body, then its end.
    awaitable<bool> write(std::string_view bytes);
    awaitable<bool> end_stream();

    // Calls `on_gone` if the client leaves before the reply is complete.
    void watch(std::function<void()> on_gone) { connection_.start_watch(std::move(on_gone)); }

    int status() const { return status_; }  // 0: nothing was sent
    bool keep_alive() const { return keep_alive_; }

 private:
    Connection& connection_;
    const HttpRequest& request_;
    int status_ = 0;
    bool keep_alive_;
};

}  // namespace quire::server
