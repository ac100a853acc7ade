#include "base/progress.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/units.h"

namespace quire {
namespace {

constexpr int64_t kBarEveryNs = 100 * kNsPerMs;
constexpr int64_t kLineEveryNs = 5 * kNsPerSecond;
constexpr int kBarMin = 10;
constexpr int kBarMax = 40;

void write_stderr(std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
        if (written <= 0) return;  // nobody to tell
        text.remove_prefix(static_cast<size_t>(written));
    }
}

ProgressOptions stderr_options(bool bytes) {
    winsize size{};
    const bool terminal = ::isatty(STDERR_FILENO) == 1;
    if (terminal) ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
    return {terminal, bytes, size.ws_col == 0 ? 80 : size.ws_col, write_stderr};
}

}  // namespace

Progress::Progress(std::string what, uint64_t total, bool bytes)
    : Progress(std::move(what), total, stderr_options(bytes)) {}

Progress::Progress(std::string what, uint64_t total, ProgressOptions options, const Clock& clock)
    : what_(std::move(what)),
      total_(std::max<uint64_t>(1, total)),
      options_(std::move(options)),
      clock_(clock),
      started_ns_(clock.monotonic_ns()),
      shown_ns_(started_ns_) {}

Progress::~Progress() {
    finish();
}

void Progress::update(uint64_t done) {
    done_ = std::min(done, total_);
    const int64_t now_ns = clock_.monotonic_ns();
    if (now_ns - shown_ns_ >= (options_.terminal ? kBarEveryNs : kLineEveryNs)) show(now_ns);
}

void Progress::finish() {
    if (std::exchange(finished_, true)) return;
    if (shown_done_ < total_) show(clock_.monotonic_ns());
    if (options_.terminal) options_.output("\n");
}

void Progress::show(int64_t now_ns) {
    shown_ns_ = now_ns;
    shown_done_ = done_;
    const std::string text = line(now_ns);
    // Return, text, erase to the end of the line.
    options_.output(options_.terminal ? "\r" + text + "\x1b[K" : text + "\n");
}

std::string Progress::line(int64_t now_ns) const {
    const double share = static_cast<double>(done_) / static_cast<double>(total_);
    const int64_t spent_ns = now_ns - started_ns_;
    std::string text = options_.bytes
                           ? fmt::format("{} of {}", format_bytes(done_), format_bytes(total_))
                           : fmt::format("{} of {}", done_, total_);
    if (done_ > 0 && done_ < total_)
        text +=
            ", " +
            format_duration(static_cast<int64_t>(static_cast<double>(spent_ns) * (1 / share - 1))) +
            " left";
    else if (done_ == total_)
        text += " in " + format_duration(spent_ns);
    const int percent = static_cast<int>(share * 100);
    if (!options_.terminal) return fmt::format("{}: {}% ({})", what_, percent, text);
    const int room = options_.columns - static_cast<int>(what_.size() + text.size()) - 11;
    const int width = std::clamp(room, kBarMin, kBarMax);
    const auto filled = static_cast<size_t>(share * width);
    return fmt::format("{} [{}{}] {:3}% {}", what_, std::string(filled, '#'),
                       std::string(static_cast<size_t>(width) - filled, '.'), percent, text);
}

}  // namespace quire
