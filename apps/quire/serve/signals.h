// Waiting for SIGINT and SIGTERM: the first asks for an orderly end, the second for an immediate
// one.
#pragma once

#include <cstdint>
#include <functional>

namespace quire {

// From here on a write to a pipe whose reader has gone fails and says so; it does not end the
// process. (A reader of the log may go without taking the server along.)
void ignore_broken_pipes();

// Blocks until a signal has come and `drain` (run on a thread of its own, once) has returned. A
// second signal meanwhile ends the process with 128 + its number, and so does the first if `drain`
// takes longer than `limit_ns`: what it waits for then cannot be waited for. Call from the main
// thread.
void wait_and_drain(const std::function<void()>& drain, int64_t limit_ns);

}  // namespace quire
