// Where log lines go: a file descriptor that may be a pipe or a terminal nobody reads.
//
// A line that cannot be written at once is dropped and counted; the program never waits for whoever
// reads its log. Any thread, one line at a time (base_sink's mutex).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include <spdlog/sinks/base_sink.h>

namespace quire::log {

class DescriptorSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
    // Does not own `fd`. `dropped` counts on and outlives this.
    DescriptorSink(int fd, bool json, std::atomic<uint64_t>& dropped)
        : fd_(fd), json_(json), dropped_(dropped) {}

 private:
    void sink_it_(const spdlog::details::log_msg& message) override;
    void flush_() override {}
    // False: `line` was not taken at all.
    bool put(std::string_view line);
    // Bytes that went without waiting.
    size_t write_some(std::string_view bytes) const;
    // "N lines were dropped", in the log's own format.
    std::string notice(const spdlog::details::log_msg& message);

    int fd_;
    bool json_;
    std::atomic<uint64_t>& dropped_;
    uint64_t untold_ = 0;  // dropped since a line was last written
    std::string rest_;     // of a line of which the beginning is written
};

}  // namespace quire::log
