#include "server/connection.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <tuple>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/clock.h"

namespace quire::server {
namespace {

namespace http = boost::beast::http;
using RequestParser = http::request_parser<http::string_body>;

constexpr size_t kReadBytes = 16 << 10;
constexpr size_t kMaxPipelinedBytes = 64 << 10;
constexpr size_t kMaxLingerBytes = 64 << 20;
constexpr int64_t kLingerNs = 5 * kSecondNs;

ApiError refuse(int status, std::string code, std::string message) {
    ApiError error;
    error.status = status;
    error.code = std::move(code);
    error.message = std::move(message);
    return error;
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

// Whether every field of this name has this value, and there is at most one if `once`.
template <typename Message>
bool only(const Message& message, http::field name, std::string_view value, bool once) {
    const auto [begin, end] = message.equal_range(name);
    size_t count = 0;
    for (auto at = begin; at != end; ++at, ++count) {
        const std::string_view given(at->value().data(), at->value().size());
        if (!boost::beast::iequals(trimmed(given), value)) return false;
    }
    return !once || count <= 1;
}

// What would leave it open where the body ends or whom the request is for; a proxy before us may
// have read it differently, and then the bytes after it would be somebody else's.
std::optional<ApiError> check_head(const RequestParser& parser) {
    const auto& message = parser.get();
    if (message.count(http::field::transfer_encoding) > 0 &&
        (message.version() < 11 ||
         !only(message, http::field::transfer_encoding, "chunked", true))) {
        return refuse(400, "bad_http",
                      "The only Transfer-Encoding taken is 'chunked', once, in HTTP/1.1.");
    }
    const auto length = message[http::field::content_length];
    if (message.count(http::field::content_length) > 1 ||
        !std::all_of(length.begin(), length.end(), [](char c) { return c >= '0' && c <= '9'; })) {
        return refuse(400, "bad_http", "The request must have one Content-Length, a number.");
    }
    if (!only(message, http::field::content_encoding, "identity", false)) {
        return refuse(415, "unsupported_encoding",
                      "The request body is compressed; send it without Content-Encoding.");
    }
    const size_t hosts = message.count(http::field::host);
    if (hosts > 1 || (hosts == 0 && message.version() >= 11)) {
        return refuse(400, "bad_http", "The request must have exactly one Host header.");
    }
    return std::nullopt;
}

// A target may name the server too, as for a proxy: http://host/path.
std::string_view path_of(std::string_view target) {
    for (const std::string_view scheme : {"http://", "https://"}) {
        if (!boost::beast::iequals(target.substr(0, scheme.size()), scheme)) continue;
        const size_t path = target.find_first_of("/?", scheme.size());
        return path == std::string_view::npos ? "/" : target.substr(path);
    }
    return target;
}

void fill_head(const RequestParser& parser, HttpRequest& into) {
    const auto& message = parser.get();
    const std::string_view target =
        path_of(std::string_view(message.target().data(), message.target().size()));
    const size_t mark = target.find('?');
    into.method = std::string(message.method_string());
    into.path = std::string(target.substr(0, mark));
    into.query = mark == std::string_view::npos ? "" : std::string(target.substr(mark + 1));
    into.authorization = std::string(message[http::field::authorization]);
    const auto given = message["X-Request-Id"];
    into.id = usable_request_id(std::string_view(given.data(), given.size()));
    into.http11 = message.version() >= 11;
    into.keep_alive = message.keep_alive();
    into.received_ns = system_clock().monotonic_ns();
}

}  // namespace

Connection::Connection(tcp::socket socket, const ServerOptions& options)
    : socket_(std::move(socket)),
      options_(options),
      buffer_(options.max_header_bytes + kMaxPipelinedBytes + kReadBytes),
      deadline_(socket_.get_executor()),
      watch_ended_(socket_.get_executor()) {
    ErrorCode ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
}

awaitable<Connection::Read> Connection::read_request(HttpRequest& into) {
    if (buffer_.size() == 0) {
        idle_ = true;
        arm(options_.idle_timeout_ns);
        auto [error] = co_await socket_.async_wait(tcp::socket::wait_read, kAwait);
        idle_ = false;
        if (error) co_return Read::closed;
    }
    RequestParser parser;
    parser.header_limit(options_.max_header_bytes);
    parser.body_limit(options_.max_body_bytes);
    arm(options_.header_timeout_ns);
    auto [error, count] = co_await http::async_read_header(socket_, buffer_, parser, kAwait);
    std::ignore = count;
    if (error) co_return failed(error);
    if (auto wrong = check_head(parser)) {
        disarm();
        refusal_ = std::move(*wrong);
        co_return Read::refused;
    }
    fill_head(parser, into);
    const Read outcome = co_await read_body(parser);
    if (outcome == Read::request) into.body = std::move(parser.get().body());
    co_return outcome;
}

template <typename Parser>
awaitable<Connection::Read> Connection::read_body(Parser& parser) {
    if (parser.is_done()) {
        disarm();
        co_return Read::request;
    }
    // Some clients hold a large body back until they are told that it is welcome.
    if (boost::beast::iequals(parser.get()[http::field::expect], "100-continue")) {
        const bool sent = co_await write("HTTP/1.1 100 Continue\r\n\r\n");
        if (!sent) co_return Read::closed;
    }
    arm(options_.body_timeout_ns);
    auto [error, count] = co_await http::async_read(socket_, buffer_, parser, kAwait);
    std::ignore = count;
    if (error) co_return failed(error);
    disarm();
    co_return Read::request;
}

Connection::Read Connection::failed(const ErrorCode& error) {
    const bool was_timeout = timed_out_;
    disarm();
    if (was_timeout) {
        refusal_ =
            refuse(408, "request_timeout",
                   "The request did not arrive in time; send it faster or in smaller parts.");
        return Read::refused;
    }
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
        refusal_ = refuse(431, "header_too_large",
                          "The request header is larger than the limit of " +
                              std::to_string(options_.max_header_bytes) + " bytes.");
        return Read::refused;
    }
    if (error == http::error::body_limit) {
        refusal_ = refuse(413, "body_too_large",
                          "The request body is larger than the limit of " +
                              std::to_string(options_.max_body_bytes) +
                              " bytes; shorten it or raise --body-limit.");
        return Read::refused;
    }
    const bool left = error == http::error::end_of_stream ||
                      error == http::error::partial_message ||
                      error.category() != make_error_code(http::error::bad_method).category();
    if (left) return Read::closed;
    refusal_ = refuse(400, "bad_http", "The request is not valid HTTP: " + error.message() + ".");
    return Read::refused;
}

awaitable<bool> Connection::write(std::string_view bytes) {
    if (gone_) co_return false;
    arm(options_.write_timeout_ns);
    auto [error, count] =
        co_await net::async_write(socket_, net::buffer(bytes.data(), bytes.size()), kAwait);
    std::ignore = count;
    disarm();
    if (error) gone_ = true;
    co_return !error;
}

void Connection::start_watch(std::function<void()> on_gone) {
    on_gone_ = std::move(on_gone);
    watching_ = true;
    end_watch_ = false;
    auto self = shared_from_this();
    net::co_spawn(
        socket_.get_executor(), [self] { return self->watch(); },
        net::bind_cancellation_slot(stop_watching_.slot(), net::detached));
}

awaitable<void> Connection::watch() {
    // A client may pipeline its next request meanwhile; past the bound we no longer look, and only
    // a failing write tells.
    co_await net::this_coro::throw_if_cancelled(false);
    while (buffer_.size() < kMaxPipelinedBytes && !end_watch_) {
        auto [error, count] = co_await socket_.async_read_some(buffer_.prepare(4096), kAwait);
        if (error == net::error::operation_aborted && !timed_out_ && socket_.is_open()) break;
        if (error) {
            gone_ = true;
            if (on_gone_) on_gone_();
            break;
        }
        buffer_.commit(count);
    }
    watching_ = false;
    watch_ended_.cancel();
}

awaitable<void> Connection::stop_watch() {
    on_gone_ = nullptr;
    end_watch_ = true;
    if (watching_) stop_watching_.emit(net::cancellation_type::terminal);
    while (watching_) {
        watch_ended_.expires_at(net::steady_timer::time_point::max());
        co_await watch_ended_.async_wait(kAwait);
    }
}

awaitable<void> Connection::linger() {
    ErrorCode ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    arm(kLingerNs);
    char dropped[kReadBytes];
    for (size_t total = 0; total < kMaxLingerBytes;) {
        auto [error, count] = co_await socket_.async_read_some(net::buffer(dropped), kAwait);
        if (error) break;
        total += count;
    }
    disarm();
}

void Connection::close() {
    ErrorCode ignored;
    disarm();
    socket_.shutdown(tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
}

void Connection::arm(int64_t timeout_ns) {
    timed_out_ = false;
    const uint64_t serial = ++deadline_serial_;
    deadline_.expires_after(std::chrono::nanoseconds(timeout_ns));
    deadline_.async_wait([weak = weak_from_this(), serial](const ErrorCode& error) {
        auto self = weak.lock();
        if (error || !self || self->deadline_serial_ != serial) return;
        self->timed_out_ = true;
        ErrorCode ignored;
        self->socket_.cancel(ignored);
    });
}

void Connection::disarm() {
    ++deadline_serial_;
    timed_out_ = false;
    deadline_.cancel();
}

}  // namespace quire::server
