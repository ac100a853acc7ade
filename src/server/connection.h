// One client's connection: reads bounded requests, writes with a deadline, notices that it left.
//
// Owned by shared_ptr: by the session coroutine and by whatever timer or read of it is pending. All
// calls on the I/O thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/cancellation_signal.hpp>
#include <boost/beast/core/flat_buffer.hpp>

#include "server/http_message.h"
#include "server/net.h"
#include "server/server_options.h"

namespace quire::server {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
    enum class Read {
        request,  // `into` holds one
        closed,   // the client left, idled too long or the server cut it off: say nothing
        refused,  // answer with refusal(), then linger() and close
    };

    Connection(tcp::socket socket, const ServerOptions& options);

    // Waits for the next request and reads all of it. Bytes of a later, pipelined request stay
    // buffered.
    awaitable<Read> read_request(HttpRequest& into);
    const ApiError& refusal() const { return refusal_; }

    // False: the client is gone or does not read; nothing more can be written.
    awaitable<bool> write(std::string_view bytes);

    // Until stop_watch(): calls `on_gone` once if the client closes its side or the connection
    // breaks. A half-closed connection counts as gone.
    void start_watch(std::function<void()> on_gone);
    awaitable<void> stop_watch();
    bool gone() const { return gone_; }

    // Reads and drops what the client still sends, for a bounded time, so that it gets to see the
    // reply.
    awaitable<void> linger();
    // Ends pending operations with an error; idempotent.
    void close();
    // True between requests: closing now loses nothing.
    bool idle() const { return idle_; }

 private:
    template <typename Parser>
    awaitable<Read> read_body(Parser& parser);
    Read failed(const ErrorCode& error);
    // Cancels pending socket operations when it passes; arm() replaces an earlier one.
    void arm(int64_t timeout_ns);
    void disarm();
    awaitable<void> watch();

    tcp::socket socket_;
    const ServerOptions& options_;
    boost::beast::flat_buffer buffer_;
    net::steady_timer deadline_;
    uint64_t deadline_serial_ = 0;  // tells a late timer from the current one
    bool timed_out_ = false;

    net::cancellation_signal stop_watching_;
    net::steady_timer watch_ended_;
    std::function<void()> on_gone_;
    bool watching_ = false;
    bool end_watch_ = false;
    bool gone_ = false;
    bool idle_ = false;
    ApiError refusal_;
};

}  // namespace quire::server
