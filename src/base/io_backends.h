// The implementations behind make_io_engine().
#pragma once

#include <memory>

#include "base/io.h"

namespace quire {

// unsupported when the kernel refuses io_uring or lacks what we need of it.
Result<std::unique_ptr<IoEngine>> make_uring_io(const IoOptions& options);
Result<std::unique_ptr<IoEngine>> make_thread_io(const IoOptions& options);

}  // namespace quire
