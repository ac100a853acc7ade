#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace quire {

void check_failed(const char* condition, const char* file, int line, const char* message) {
    std::fprintf(stderr, "quire: check failed at %s:%d: %s (%s)\n", file, line, message, condition);
    std::abort();
}

}  // namespace quire
