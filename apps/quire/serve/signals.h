// Waiting for SIGINT and SIGTERM: the first asks for an orderly end, the second for an immediate
// one.
#pragma once

#include <functional>

namespace quire {

// Blocks until a signal has come and `drain` (run on a thread of its own, once) has returned. A
// second signal meanwhile ends the process with 128 + its number. Call from the main thread.
void wait_and_drain(const std::function<void()>& drain);

}  // namespace quire
