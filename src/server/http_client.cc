#include "server/http_client.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include "server/net.h"
#include "server/sse_reader.h"

namespace quire::server {
namespace {

namespace http = boost::beast::http;
constexpr size_t kPieceBytes = 16 << 10;

template <typename Fields>
void copy_head(const Fields& message, ClientReply& reply) {
    reply.status = static_cast<int>(message.result_int());
    for (const auto& field : message) {
        std::string name(field.name_string());
        std::transform(name.begin(), name.end(), name.begin(),
                       [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        reply.headers.emplace_back(std::move(name), std::string(field.value()));
    }
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
    const std::string given(text);
    constexpr std::string_view kScheme = "http://";
    if (!text.starts_with(kScheme)) {
        return make_error(Code::invalid, "'" + given + "' is not of the form http://HOST[:PORT]");
    }
    text.remove_prefix(kScheme.size());
    Url url;
    const size_t slash = text.find('/');
    if (slash != std::string_view::npos) url.path = std::string(text.substr(slash));
    while (url.path.ends_with('/')) url.path.pop_back();
    std::string_view authority = text.substr(0, slash);
    const size_t bracket = authority.rfind(']');  // of an IPv6 address
    const size_t colon = authority.rfind(':');
    const bool has_port =
        colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
    if (has_port) {
        const std::string_view port = authority.substr(colon + 1);
        const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
        if (error != std::errc() || end != port.data() + port.size() || url.port == 0) {
            return make_error(Code::invalid, "'" + given + "' has no valid port after ':'");
        }
        authority = authority.substr(0, colon);
    }
    if (authority.starts_with('[') && authority.ends_with(']')) {
        authority = authority.substr(1, authority.size() - 2);
    }
    if (authority.empty()) return make_error(Code::invalid, "'" + given + "' names no host");
    url.host = std::string(authority);
    return url;
}

std::string_view ClientReply::header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
        if (key == name) return value;
    }
    return {};
}

struct HttpClient::Impl {
    Impl(Url url_in, std::string key_in, int64_t timeout_in)
        : url(std::move(url_in)), api_key(std::move(key_in)), timeout_ns(timeout_in) {}

    // Runs one asynchronous operation to its end or to the deadline.
    template <typename Start>
    ErrorCode wait(Start start) {
        ErrorCode result = net::error::would_block;
        stream.expires_after(std::chrono::nanoseconds(timeout_ns));
        start([&result](const ErrorCode& error, auto&&...) { result = error; });
        io.restart();
        io.run();
        return result;
    }

    Error failure(const ErrorCode& error, const char* doing);
    Status connect();
    Status send(std::string_view method, std::string_view path, std::string_view body);
    template <typename Parser>
    Status read_head(Parser& parser);
    // Sends, and once more on a new connection if the server had closed an old one.
    template <typename Parser>
    Status exchange(std::string_view method, std::string_view path, std::string_view body,
                    std::optional<Parser>& parser);
    void close();

    Url url;
    std::string api_key;
    int64_t timeout_ns;
    net::io_context io{1};
    boost::beast::tcp_stream stream{io};
    boost::beast::flat_buffer buffer;
    bool connected = false;
};

Error HttpClient::Impl::failure(const ErrorCode& error, const char* doing) {
    close();
    const std::string where = url.host + ":" + std::to_string(url.port);
    if (error == boost::beast::error::timeout) {
        return make_error(Code::timeout, std::string(doing) + " " + where + " took too long");
    }
    return make_error(Code::io, std::string(doing) + " " + where + " failed: " + error.message(),
                      error.value());
}

Status HttpClient::Impl::connect() {
    if (connected) return {};
    ErrorCode error;
    tcp::resolver resolver(io);
    const auto found = resolver.resolve(url.host, std::to_string(url.port), error);
    if (!error) error = wait([&](auto done) { stream.async_connect(found, std::move(done)); });
    if (error) return failure(error, "connecting to");
    ErrorCode ignored;
    stream.socket().set_option(tcp::no_delay(true), ignored);
    buffer.clear();
    connected = true;
    return {};
}

Status HttpClient::Impl::send(std::string_view method, std::string_view path,
                              std::string_view body) {
    QUIRE_TRY(connect());
    std::string bytes = std::string(method) + " " + url.path + std::string(path) +
                        " HTTP/1.1\r\nHost: " + url.host + ":" + std::to_string(url.port) + "\r\n";
    if (!api_key.empty()) bytes += "Authorization: Bearer " + api_key + "\r\n";
    if (!body.empty()) bytes += "Content-Type: application/json\r\n";
    bytes += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
    bytes += body;
    const ErrorCode error =
        wait([&](auto done) { net::async_write(stream, net::buffer(bytes), std::move(done)); });
    if (error) return failure(error, "sending to");
    return {};
}

template <typename Parser>
Status HttpClient::Impl::read_head(Parser& parser) {
    parser.body_limit(boost::none);
    const ErrorCode error =
        wait([&](auto done) { http::async_read_header(stream, buffer, parser, std::move(done)); });
    if (error) return failure(error, "reading from");
    return {};
}

template <typename Parser>
Status HttpClient::Impl::exchange(std::string_view method, std::string_view path,
                                  std::string_view body, std::optional<Parser>& parser) {
    const bool reused = connected;
    parser.emplace();
    Status status = send(method, path, body);
    if (status.ok()) status = read_head(*parser);
    if (status.ok() || !reused || status.code() != Code::io) return status;
    parser.emplace();
    QUIRE_TRY(send(method, path, body));
    return read_head(*parser);
}

void HttpClient::Impl::close() {
    ErrorCode ignored;
    stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream.close();
    connected = false;
}

HttpClient::HttpClient(Url url, std::string api_key, int64_t timeout_ns)
    : impl_(std::make_unique<Impl>(std::move(url), std::move(api_key), timeout_ns)) {}
HttpClient::~HttpClient() = default;
HttpClient::HttpClient(HttpClient&&) noexcept = default;

void HttpClient::close() {
    impl_->close();
}

Result<ClientReply> HttpClient::request(std::string_view method, std::string_view path,
                                        std::string_view body) {
    std::optional<http::response_parser<http::string_body>> parser;
    QUIRE_TRY(impl_->exchange(method, path, body, parser));
    if (method == "HEAD") parser->skip(true);
    const ErrorCode error = impl_->wait([&](auto done) {
        http::async_read(impl_->stream, impl_->buffer, *parser, std::move(done));
    });
    if (error) return impl_->failure(error, "reading from");
    ClientReply reply;
    copy_head(parser->get(), reply);
    reply.body = std::move(parser->get().body());
    if (!parser->get().keep_alive()) impl_->close();
    return reply;
}

Result<ClientReply> HttpClient::stream(std::string_view path, std::string_view body,
                                       const OnEvent& on_event) {
    std::optional<http::response_parser<http::buffer_body>> parser;
    QUIRE_TRY(impl_->exchange("POST", path, body, parser));
    ClientReply reply;
    copy_head(parser->get(), reply);
    SseReader events;
    std::string piece(kPieceBytes, '\0');
    while (!parser->is_done()) {
        parser->get().body().data = piece.data();
        parser->get().body().size = piece.size();
        ErrorCode error = impl_->wait([&](auto done) {
            http::async_read_some(impl_->stream, impl_->buffer, *parser, std::move(done));
        });
        if (error == http::error::need_buffer) error = {};
        if (error) return impl_->failure(error, "reading from");
        const std::string_view got(piece.data(), piece.size() - parser->get().body().size);
        if (reply.status != 200) {
            reply.body += got;
            continue;
        }
        events.feed(got);
        while (auto data = events.next()) {
            if (on_event(*data)) continue;
            impl_->close();
            return reply;
        }
    }
    if (!parser->get().keep_alive()) impl_->close();
    return reply;
}

}  // namespace quire::server
