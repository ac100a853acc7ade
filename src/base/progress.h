// Progress: how far a long task is, on a terminal as a bar that redraws itself, elsewhere (a log, a
// pipe) as a line every few seconds. Not thread-safe: one owner reports.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace quire {

struct ProgressOptions {
    bool terminal = false;
    bool bytes = false;                            // counts are bytes: print them as sizes
    int columns = 80;                              // of the terminal
    std::function<void(std::string_view)> output;  // gets text to show as it is
};

class Progress {
 public:
    // On stderr, a bar if that is a terminal.
    Progress(std::string what, uint64_t total, bool bytes = false);
    Progress(std::string what, uint64_t total, ProgressOptions options,
             const Clock& clock = system_clock());
    // Ends the line, as finish() does, if nobody did.
    ~Progress();

    // `done` of the total; shows it if enough time has passed since the last showing. Cheap
    // otherwise.
    void update(uint64_t done);
    // Shows the end state once.
    void finish();

    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

 private:
    std::string line(int64_t now_ns) const;
    void show(int64_t now_ns);

    std::string what_;
    uint64_t total_;
    ProgressOptions options_;
    const Clock& clock_;
    uint64_t done_ = 0;
    int64_t started_ns_;
    int64_t shown_ns_;
    uint64_t shown_done_ = 0;
    bool finished_ = false;
};

}  // namespace quire
