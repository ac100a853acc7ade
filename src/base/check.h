// QUIRE_CHECK: an assertion about our own invariants, on in every build.
//
// For programmer errors only: outside input is answered with a Result. A failing check prints the
// condition, the place and the message to stderr and aborts, because going on could serve wrong
// bytes.
#pragma once

namespace quire {

[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const char* message);

}  // namespace quire

#define QUIRE_CHECK(condition, message)                                     \
    do {                                                                    \
        if (!(condition)) [[unlikely]]                                      \
            ::quire::check_failed(#condition, __FILE__, __LINE__, message); \
    } while (false)
