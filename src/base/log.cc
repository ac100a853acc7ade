#include "base/log.h"

#include <atomic>
#include <memory>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log_sink.h"

namespace quire::log {
namespace {

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%e %l %v";
constexpr char kJsonPattern[] = R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})";
constexpr std::array<std::string_view, 5> kLevelNames = {"debug", "info", "warn", "error", "off"};

spdlog::level::level_enum to_spdlog(Level level) {
    constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                     spdlog::level::warn, spdlog::level::err,
                                                     spdlog::level::off};
    return kLevels[static_cast<size_t>(level)];
}

class CaptureSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
    explicit CaptureSink(std::function<void(std::string_view)> capture)
        : capture_(std::move(capture)) {}

 private:
    void sink_it_(const spdlog::details::log_msg& message) override {
        spdlog::memory_buf_t line;
        formatter_->format(message, line);
        std::string_view text(line.data(), line.size());
        if (text.ends_with('\n')) text.remove_suffix(1);
        capture_(text);
    }
    void flush_() override {}

    std::function<void(std::string_view)> capture_;
};

struct Logger {
    std::shared_ptr<spdlog::logger> spd;
    bool json = false;
};

std::atomic<uint64_t>& dropped() {
    static std::atomic<uint64_t> dropped{0};
    return dropped;
}

std::shared_ptr<const Logger> make_logger(const Options& options) {
    spdlog::sink_ptr sink =
        std::make_shared<DescriptorSink>(STDERR_FILENO, options.json, dropped());
    if (options.capture) sink = std::make_shared<CaptureSink>(options.capture);
    auto logger = std::make_shared<Logger>();
    logger->json = options.json;
    logger->spd = std::make_shared<spdlog::logger>("quire", std::move(sink));
    logger->spd->set_level(to_spdlog(options.level));
    logger->spd->set_pattern(options.json ? kJsonPattern : kTextPattern,
                             spdlog::pattern_time_type::utc);
    logger->spd->flush_on(spdlog::level::debug);
    return logger;
}

// The one piece of state that the whole process shares.
struct State {
    std::atomic<Level> level{Level::info};
    std::array<std::atomic<uint64_t>, kLevelNames.size()> lines{};
    std::mutex mutex;
    std::shared_ptr<const Logger> logger = make_logger({});
};

State& state() {
    static State state;
    return state;
}

std::shared_ptr<const Logger> logger_now() {
    std::lock_guard lock(state().mutex);
    return state().logger;
}

// JSON string contents; also what keeps a text line one line.
std::string escaped(std::string_view text, bool json) {
    std::string out;
    out.reserve(text.size());
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (json && (c == '"' || c == '\\')) {
            out += '\\';
            out += c;
        } else if (c == '\n') {
            out += "\\n";
        } else if (byte < 0x20 || byte == 0x7f) {
            out += fmt::format("\\u{:04x}", byte);
        } else {
            out += c;
        }
    }
    return out;
}

}  // namespace

Result<Level> parse_level(std::string_view name) {
    for (size_t i = 0; i < kLevelNames.size(); ++i)
        if (name == kLevelNames[i]) return static_cast<Level>(i);
    return make_error(Code::invalid,
                      fmt::format("log level '{}' is none of debug, info, warn, error, "
                                  "off",
                                  name));
}

void configure(const Options& options) {
    auto logger = make_logger(options);
    std::lock_guard lock(state().mutex);
    state().logger = std::move(logger);
    state().level = options.level;
}

bool enabled(Level level) {
    return level != Level::off && level >= state().level.load(std::memory_order_relaxed);
}

uint64_t lines_written(Level level) {
    return state().lines[static_cast<size_t>(level)].load(std::memory_order_relaxed);
}

uint64_t lines_dropped() {
    return dropped().load(std::memory_order_relaxed);
}

void write(Level level, std::string_view event, std::string_view message) {
    if (!enabled(level)) return;
    state().lines[static_cast<size_t>(level)].fetch_add(1, std::memory_order_relaxed);
    const auto logger = logger_now();
    const std::string line = logger->json
                                 ? fmt::format(R"("event":"{}","message":"{}")",
                                               escaped(event, true), escaped(message, true))
                                 : fmt::format("{}: {}", event, escaped(message, false));
    logger->spd->log(to_spdlog(level), line);
}

std::optional<uint64_t> Limiter::admit(std::string_view kind) {
    const int64_t now_ns = clock_.monotonic_ns();
    std::lock_guard lock(mutex_);
    Place& place = places_[xxh3_64(std::as_bytes(std::span(kind))) % kKinds];
    if (place.used && now_ns - place.last_ns < interval_ns_) {
        ++place.held_back;
        return std::nullopt;
    }
    place.used = true;
    place.last_ns = now_ns;
    return std::exchange(place.held_back, 0);
}

}  // namespace quire::log
