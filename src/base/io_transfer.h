// IoTransfer: one request's way through as many system calls as it takes. Shared by the I/O
// engines.
//
// Pure bookkeeping, no system call of its own but to name a file in an error. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/io.h"

namespace quire {

class IoTransfer {
 public:
    IoTransfer() = default;
    explicit IoTransfer(const IoRequest& request) : request_(request) {}

    // What to issue next.
    IoOp op() const { return request_.op; }
    int fd() const { return request_.fd; }
    uint64_t offset() const { return request_.offset + start_; }
    std::span<const iovec> parts() const;

    // Takes in the outcome of the call: bytes transferred, or -errno. Returns the final result, or
    // nothing when what is left must be issued.
    std::optional<Result<size_t>> advance(int64_t outcome);

    uint32_t continued() const { return continued_; }

 private:
    std::optional<Result<size_t>> failed(int error_number);
    std::optional<Result<size_t>> moved(size_t bytes);
    std::optional<Result<size_t>> again(size_t start);
    Error error(int error_number) const;

    IoRequest request_;
    std::vector<iovec> rest_;  // buffers from start_ on, once start_ > 0
    size_t start_ = 0;         // bytes into the request where the next call begins
    size_t reached_ = 0;       // bytes into the request that are done
    uint32_t continued_ = 0;
    bool aligned_down_ = false;
};

}  // namespace quire
