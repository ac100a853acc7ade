// The log: one line per event on stderr, as text or JSON, each with a stable event name.
//
//   log::warn("disk_write_failed", "segment {}: {}", id, error.message);
//
// Lines that nobody reads are dropped and counted: the log never waits (log_sink.h).
// The event name is for programs and never changes; the message is for people. A cache miss is no
// warning. The log is the process's: its level and format are set once at start. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/result.h"

namespace quire::log {

enum class Level : uint8_t { debug, info, warn, error, off };

// "debug", "info", "warn", "error", "off"; anything else is invalid.
Result<Level> parse_level(std::string_view name);

struct Options {
    Level level = Level::info;
    bool json = false;                              // one JSON object a line
    std::function<void(std::string_view)> capture;  // tests: gets each line instead of stderr
};

void configure(const Options& options);
bool enabled(Level level);
// Lines written at `level` since the process started, whatever was configured meanwhile.
uint64_t lines_written(Level level);
// Of those, lines that could not be written at once.
uint64_t lines_dropped();
// Writes one line if the level is enabled. Control characters in `message` are escaped.
void write(Level level, std::string_view event, std::string_view message);

template <typename... Args>
void debug(std::string_view event, fmt::format_string<Args...> message, Args&&... args) {
    if (enabled(Level::debug))
        write(Level::debug, event, fmt::format(message, std::forward<Args>(args)...));
}
template <typename... Args>
void info(std::string_view event, fmt::format_string<Args...> message, Args&&... args) {
    if (enabled(Level::info))
        write(Level::info, event, fmt::format(message, std::forward<Args>(args)...));
}
template <typename... Args>
void warn(std::string_view event, fmt::format_string<Args...> message, Args&&... args) {
    if (enabled(Level::warn))
        write(Level::warn, event, fmt::format(message, std::forward<Args>(args)...));
}
template <typename... Args>
void error(std::string_view event, fmt::format_string<Args...> message, Args&&... args) {
    if (enabled(Level::error))
        write(Level::error, event, fmt::format(message, std::forward<Args>(args)...));
}

// For errors that may repeat with every request: one line per kind and interval, the rest counted.
class Limiter {
 public:
    explicit Limiter(const Clock& clock = system_clock(), int64_t interval_ns = 10'000'000'000)
        : clock_(clock), interval_ns_(interval_ns) {}

    // Nothing: stay silent. Else say it, and how many of the kind were held back since the last
    // line. Kinds share kKinds places by hash, so memory is bounded and two kinds may share a
    // limit.
    std::optional<uint64_t> admit(std::string_view kind);

    template <typename... Args>
    void warn(std::string_view event, fmt::format_string<Args...> message, Args&&... args) {
        limited(Level::warn, event, message, std::forward<Args>(args)...);
    }
    template <typename... Args>
    void error(std::string_view event, fmt::format_string<Args...> message, Args&&... args) {
        limited(Level::error, event, message, std::forward<Args>(args)...);
    }

 private:
    static constexpr size_t kKinds = 64;
    struct Place {
        int64_t last_ns = 0;
        uint64_t held_back = 0;
        bool used = false;
    };

    template <typename... Args>
    void limited(Level level, std::string_view event, fmt::format_string<Args...> message,
                 Args&&... args) {
        const std::optional<uint64_t> held_back = admit(event);
        if (!held_back || !enabled(level)) return;
        std::string text = fmt::format(message, std::forward<Args>(args)...);
        if (*held_back > 0) text += fmt::format(" ({} more like this were not logged)", *held_back);
        write(level, event, text);
    }

    const Clock& clock_;
    int64_t interval_ns_;
    std::mutex mutex_;
    std::array<Place, kKinds> places_;
};

}  // namespace quire::log
