#include "server/http_message.h"

#include <algorithm>
#include <cstdio>
#include <random>

#include <boost/beast/http/status.hpp>

namespace quire::server {

HttpReply json_reply(std::string body, int status) {
    HttpReply reply;
    reply.status = status;
    reply.body = std::move(body);
    return reply;
}

HttpReply error_reply(const ApiError& error) {
    HttpReply reply = json_reply(error_body(error), error.status);
    if (error.retry_after_s > 0) {
        reply.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
    }
    if (error.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
}

std::string reply_head(const HttpReply& reply, const HttpRequest& request, int64_t body_bytes,
                       bool keep_alive) {
    const auto status = static_cast<boost::beast::http::status>(reply.status);
    const auto reason = boost::beast::http::obsolete_reason(status);
    std::string head = request.http11 ? "HTTP/1.1 " : "HTTP/1.0 ";
    head += std::to_string(reply.status) + " " + std::string(reason) + "\r\nServer: quire\r\n";
    head += "Content-Type: " + reply.content_type + "\r\n";
    if (!request.id.empty()) head += "X-Request-Id: " + request.id + "\r\n";
    for (const auto& [name, value] : reply.headers) head += name + ": " + value + "\r\n";
    if (body_bytes >= 0) {
        head += "Content-Length: " + std::to_string(body_bytes) + "\r\n";
    } else if (request.http11) {
        head += "Transfer-Encoding: chunked\r\n";
    }
    head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
    return head;
}

std::string usable_request_id(std::string_view given) {
    const bool printable =
        std::all_of(given.begin(), given.end(), [](char c) { return c > ' ' && c < 127; });
    if (given.empty() || given.size() > 128 || !printable) return "req-" + random_id();
    return std::string(given);
}

std::string random_id() {
    thread_local std::mt19937_64 random(std::random_device{}());
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(random()));
    return text;
}

}  // namespace quire::server
