// Waiting for SIGINT and SIGTERM: the first asks for an orderly end, the second for an immediate
// one.
#pragma once

#include <cstdint>
#include <functional>

namespace quire {

// Blocks until a signal has come and `drain` (run on a thread of its own, once) has returned. A
// second signal meanwhile ends the process with 128 + its number, and so does the first if `drain`
// takes longer than `limit_ns`: what it waits for then cannot be waited for. Call from the main
// thread.
void wait_and_drain(const std::function<void()>& drain, int64_t limit_ns);

}  // namespace quire
