// The descriptor stays blocking: its mode belongs to everybody who has it open, our parent's shell
// among them. Instead it is asked before every write, and no write is larger than what a pipe that
// says yes has room for.
#include "base/log_sink.h"

#include <algorithm>
#include <cerrno>
#include <climits>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

namespace quire::log {

void DescriptorSink::sink_it_(const spdlog::details::log_msg& message) {
    if (!rest_.empty()) {
        rest_.erase(0, write_some(rest_));
        if (!rest_.empty()) {
            ++untold_;
            dropped_.fetch_add(1, std::memory_order_relaxed);
            return;
        }
    }
    if (untold_ > 0 && put(notice(message))) untold_ = 0;
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (untold_ == 0 && rest_.empty() && put(std::string_view(line.data(), line.size()))) return;
    ++untold_;
    dropped_.fetch_add(1, std::memory_order_relaxed);
}

bool DescriptorSink::put(std::string_view line) {
    const size_t written = write_some(line);
    if (written == 0) return false;
    rest_ = line.substr(written);
    return true;
}

size_t DescriptorSink::write_some(std::string_view bytes) const {
    size_t done = 0;
    while (done < bytes.size()) {
        pollfd ready = {.fd = fd_, .events = POLLOUT, .revents = 0};
        const int count = ::poll(&ready, 1, 0);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0 || (ready.revents & POLLOUT) == 0) break;
        const size_t piece = std::min<size_t>(bytes.size() - done, PIPE_BUF);
        const ssize_t written = ::write(fd_, bytes.data() + done, piece);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) break;
        done += static_cast<size_t>(written);
    }
    return done;
}

std::string DescriptorSink::notice(const spdlog::details::log_msg& message) {
    const std::string text = fmt::format("{} log lines were dropped: nobody read them", untold_);
    const std::string payload = json_ ? fmt::format(R"("event":"log_dropped","message":"{}")", text)
                                      : "log_dropped: " + text;
    const spdlog::details::log_msg told(message.time, {}, message.logger_name, spdlog::level::warn,
                                        payload);
    spdlog::memory_buf_t line;
    formatter_->format(told, line);
    return std::string(line.data(), line.size());
}

}  // namespace quire::log
