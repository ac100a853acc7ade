// What a server is told at start. Values only; sizes in bytes, times in nanoseconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire::server {

// A key that clients send as "Authorization: Bearer KEY", and the tenant whose cache they see.
struct ApiKey {
    std::string key;
    std::string tenant;  // empty: the tenant of a server without keys
};

inline constexpr int64_t kSecondNs = 1'000'000'000;

struct ServerOptions {
    std::string host = "127.0.0.1";  // anything but loopback needs a key
    uint16_t port = 8000;            // 0: any free one
    std::vector<ApiKey> keys;
    bool metrics_need_key = false;
    std::string version = "0";

    uint64_t max_body_bytes = 8ull << 20;
    uint32_t max_header_bytes = 32u << 10;
    uint32_t max_connections = 1024;
    uint32_t worker_threads = 2;  // parsing, templates, tokenizing

    // For what happens before the engine has the request, from its header on; the engine has its
    // own.
    int64_t request_timeout_ns = 600 * kSecondNs;

    int64_t header_timeout_ns = 10 * kSecondNs;  // from the first byte to the end of the header
    int64_t body_timeout_ns = 60 * kSecondNs;
    int64_t idle_timeout_ns = 75 * kSecondNs;   // between requests of one connection
    int64_t write_timeout_ns = 30 * kSecondNs;  // a client that does not read
    // A stream without news says so this often, for proxies on the way.
    int64_t heartbeat_ns = 15 * kSecondNs;
};

}  // namespace quire::server
