// The boundary at which exceptions of the standard library and of Boost become errors: memory and
// threads that the machine does not give.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "base/result.h"

namespace quire {

// What `work` returns, a Result; full: it threw.
template <typename Work>
auto with_resources(Work work) -> decltype(work()) {
    try {
        return work();
    } catch (const std::bad_alloc&) {
        return make_error(Code::full,
                          "out of memory; raise the limit (ulimit -v), or make --kv-memory and "
                          "--host-memory smaller");
    } catch (const std::exception& e) {
        return make_error(
            Code::full, std::string("the machine gives no more threads or memory (") + e.what() +
                            "); raise its limits (ulimit -u, ulimit -v), or give fewer --threads");
    }
}

}  // namespace quire
