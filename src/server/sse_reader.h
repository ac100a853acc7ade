// Cuts a byte stream of Server-Sent Events into the data of its events.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace quire::server {

class SseReader {
 public:
    void feed(std::string_view bytes) { buffer_.append(bytes); }
    // The data of the next complete event; comments are skipped, lines of data joined by '\n'.
    std::optional<std::string> next();

 private:
    std::string buffer_;
};

}  // namespace quire::server
