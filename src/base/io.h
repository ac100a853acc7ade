// IoEngine: asynchronous positioned file I/O in batches.
//
// One batch of requests in, one completion per request. io_uring where the kernel allows it,
// otherwise a small pool of threads around preadv and pwritev; both behave alike (io_test.cc runs
// over both).
//
// Requests of a batch, and of different batches, may run and complete in any order. A sync covers
// only writes whose completion was seen before the sync was submitted.
//
// Short transfers, EINTR and EAGAIN are continued inside, a bounded number of times. So a write
// ends with all its bytes or with an error, and a read ends short only at the end of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <sys/uio.h>

#include "base/result.h"

namespace quire {

enum class IoOp : uint8_t {
    nop,  // transfers nothing, completes with 0
    read,
    write,
    fdatasync,
    fsync,
};

std::string_view io_op_name(IoOp op);

// What `parts` or `one` point to, and the descriptor, are the caller's and stay valid and unchanged
// until the request completed. With O_DIRECT the caller aligns offset, addresses and sizes.
struct IoRequest {
    IoOp op = IoOp::nop;
    int fd = -1;
    uint64_t offset = 0;           // bytes from the start of the file
    iovec one{};                   // the buffer, when `parts` is empty
    std::span<const iovec> parts;  // up to kMaxIoParts buffers that follow each other in the file
    uint64_t tag = 0;              // handed back to the completion
};
inline constexpr size_t kMaxIoParts = 1024;

IoRequest io_read(int fd, uint64_t offset, std::span<std::byte> into, uint64_t tag = 0);
IoRequest io_write(int fd, uint64_t offset, std::span<const std::byte> from, uint64_t tag = 0);
IoRequest io_readv(int fd, uint64_t offset, std::span<const iovec> into, uint64_t tag = 0);
IoRequest io_writev(int fd, uint64_t offset, std::span<const iovec> from, uint64_t tag = 0);
IoRequest io_fdatasync(int fd, uint64_t tag = 0);
// The buffers of a request, whichever way it names them.
std::span<const iovec> io_parts(const IoRequest& request);
size_t io_bytes(const IoRequest& request);

// Called once per request with its tag and the bytes transferred, or Code::io with errno as detail
// (ENOSPC and EDQUOT are Code::full). Runs on a thread of the engine's, never inside submit(),
// never two at a time; must not block; may call submit().
using IoDone = std::function<void(uint64_t tag, const Result<size_t>& result)>;

struct IoStats {
    uint64_t requests = 0;
    uint64_t read_bytes = 0;
    uint64_t write_bytes = 0;
    uint64_t continued = 0;  // short transfers and interruptions continued
    uint64_t errors = 0;
    uint64_t pending = 0;  // accepted, not completed
};

class IoEngine {
 public:
    // Waits until everything accepted has completed.
    virtual ~IoEngine() = default;

    // Accepts all of the batch or nothing. busy: the requests do not fit under queue_depth now;
    // invalid: they never will, or a request is malformed. `batch` itself may go once this
    // returned. Any thread.
    virtual Status submit(std::span<const IoRequest> batch, IoDone done) = 0;

    virtual std::string_view name() const = 0;  // "io_uring" or "threads"
    virtual size_t queue_depth() const = 0;     // most requests accepted and not completed
    virtual IoStats stats() const = 0;
};

enum class IoKind : uint8_t { automatic, uring, threads };

struct IoOptions {
    IoKind kind = IoKind::automatic;
    uint32_t queue_depth = 256;  // 1 to 4096
    uint32_t threads = 4;        // of the fallback, 1 to 64
};

// unsupported when io_uring is asked for by name and the kernel refuses it; automatic falls back.
Result<std::unique_ptr<IoEngine>> make_io_engine(const IoOptions& options);

// Runs the batch and waits for all of it; results in the batch's order. Any number of requests. Not
// from a completion. Ends because every accepted request completes.
std::vector<Result<size_t>> run_io(IoEngine& engine, std::span<const IoRequest> batch);

}  // namespace quire
