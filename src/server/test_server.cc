#include "server/test_server.h"

#include <algorithm>
#include <utility>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

namespace quire::server {
namespace {

constexpr int64_t kClientTimeoutNs = 30 * kSecondNs;

ServerOptions on_any_port(ServerOptions options) {
    options.port = 0;
    options.version = "1.2.3";
    return options;
}

}  // namespace

TestServer::TestServer(ServerOptions options) {
    log::configure({.level = log::Level::error});
    auto started = Server::start(engine, metrics, on_any_port(std::move(options)));
    if (!started.ok()) ADD_FAILURE() << started.error().message;
    server = std::move(started).value();
}

HttpClient TestServer::client(std::string key) const {
    return HttpClient(*parse_url(server->url()), std::move(key), kClientTimeoutNs);
}

ClientReply TestServer::get(std::string_view path, std::string key) const {
    auto reply = client(std::move(key)).request("GET", path);
    if (reply.ok()) return *reply;
    ADD_FAILURE() << reply.error().message;
    return {};
}

ClientReply TestServer::post(std::string_view path, std::string_view body, std::string key) const {
    auto reply = client(std::move(key)).request("POST", path, body);
    if (reply.ok()) return *reply;
    ADD_FAILURE() << reply.error().message;
    return {};
}

std::vector<Json> TestServer::stream(std::string_view path, std::string_view body) const {
    std::vector<Json> events;
    auto reply = client().stream(path, body, [&](std::string_view data) {
        events.push_back(data == "[DONE]" ? Json("[DONE]") : parsed(std::string(data)));
        return true;
    });
    if (!reply.ok()) {
        ADD_FAILURE() << reply.error().message;
    } else if (reply->status != 200) {
        ADD_FAILURE() << reply->status << " " << reply->body;
    }
    return events;
}

RawSocket::RawSocket(uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    timeval patience{30, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

RawSocket::~RawSocket() {
    close();
}

bool RawSocket::send(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
}

std::string RawSocket::read_until(std::string_view mark) {
    size_t searched = 0;
    for (;;) {
        const size_t found = mark.empty() ? std::string::npos : buffer_.find(mark, searched);
        if (found != std::string::npos) {
            std::string got = buffer_.substr(0, found + mark.size());
            buffer_.erase(0, got.size());
            return got;
        }
        searched = buffer_.size() - std::min(buffer_.size(), mark.size());
        char piece[4096];
        const ssize_t count = ::recv(fd_, piece, sizeof piece, 0);
        if (count <= 0) return std::exchange(buffer_, {});
        buffer_.append(piece, static_cast<size_t>(count));
    }
}

std::string RawSocket::read_all() {
    return read_until({});
}

void RawSocket::close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

void RawSocket::reset() {
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
}

void RawSocket::half_close() {
    ::shutdown(fd_, SHUT_WR);
}

Json parsed(const std::string& text) {
    Json value = Json::parse(text, nullptr, false);
    EXPECT_FALSE(value.is_discarded()) << text;
    return value;
}

Json error_of(const ClientReply& reply, int status) {
    EXPECT_EQ(reply.status, status) << reply.body;
    const Json body = parsed(reply.body);
    const bool shaped = body.contains("error") && body["error"].contains("message") &&
                        body["error"].contains("type") && body["error"].contains("param") &&
                        body["error"].contains("code");
    EXPECT_TRUE(shaped) << reply.body;
    return shaped ? body["error"] : Json::object();
}

}  // namespace quire::server
