#include "server/sse_reader.h"

namespace quire::server {
namespace {

// The data lines of one event, nullopt when it has none.
std::optional<std::string> data_of(std::string_view event) {
    std::optional<std::string> data;
    while (!event.empty()) {
        const size_t end = event.find('\n');
        std::string_view line = event.substr(0, end);
        event = end == std::string_view::npos ? std::string_view() : event.substr(end + 1);
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (!line.starts_with("data:")) continue;
        line.remove_prefix(5);
        if (line.starts_with(' ')) line.remove_prefix(1);
        data = data ? *data + "\n" + std::string(line) : std::string(line);
    }
    return data;
}

}  // namespace

std::optional<std::string> SseReader::next() {
    for (;;) {
        const size_t end = buffer_.find("\n\n");
        if (end == std::string::npos) return std::nullopt;
        const std::string event = buffer_.substr(0, end);
        buffer_.erase(0, end + 2);
        if (auto data = data_of(event)) return data;
    }
}

}  // namespace quire::server
