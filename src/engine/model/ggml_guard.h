// GgmlGuard: while one lives, an assertion that fails inside ggml or libllama throws GgmlFailure
// instead of printing a backtrace and ending the process.
//
// For reading files, whose contents reach such assertions. What ggml had allocated may leak, so a
// caller turns the exception into an error and gives the file up. The hook is the process's: one
// guard at a time, and none while a model computes.
#pragma once

#include <stdexcept>

#include <ggml.h>

namespace quire {

struct GgmlFailure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class GgmlGuard {
 public:
    GgmlGuard();
    ~GgmlGuard();
    GgmlGuard(const GgmlGuard&) = delete;
    GgmlGuard& operator=(const GgmlGuard&) = delete;

 private:
    ggml_abort_callback_t before_;
};

}  // namespace quire
