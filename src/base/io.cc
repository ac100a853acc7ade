#include "base/io.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <string>

#include "base/io_backends.h"

namespace quire {
namespace {

iovec part_of(std::span<const std::byte> bytes) {
    return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // iovec has no const form
}

// Collects the results of one run_io() call.
class Gather {
 public:
    explicit Gather(size_t count)
        : results_(count, make_error(Code::bug, "I/O request without a completion")),
          left_(count) {}

    void put(size_t index, const Result<size_t>& result) {
        std::lock_guard lock(mutex_);
        results_[index] = result;
        if (--left_ == 0) done_.notify_all();
    }
    std::vector<Result<size_t>> wait() {
        std::unique_lock lock(mutex_);
        done_.wait(lock, [this] { return left_ == 0; });
        return results_;
    }

 private:
    std::mutex mutex_;
    std::condition_variable done_;
    std::vector<Result<size_t>> results_;
    size_t left_;
};

}  // namespace

std::string_view io_op_name(IoOp op) {
    constexpr std::array<std::string_view, 5> kNames = {"nop", "read", "write", "fdatasync",
                                                        "fsync"};
    return kNames[static_cast<size_t>(op)];
}

IoRequest io_read(int fd, uint64_t offset, std::span<std::byte> into, uint64_t tag) {
    return {.op = IoOp::read,
            .fd = fd,
            .offset = offset,
            .one = part_of(into),
            .parts = {},
            .tag = tag};
}

IoRequest io_write(int fd, uint64_t offset, std::span<const std::byte> from, uint64_t tag) {
    return {.op = IoOp::write,
            .fd = fd,
            .offset = offset,
            .one = part_of(from),
            .parts = {},
            .tag = tag};
}

IoRequest io_readv(int fd, uint64_t offset, std::span<const iovec> into, uint64_t tag) {
    return {.op = IoOp::read, .fd = fd, .offset = offset, .one = {}, .parts = into, .tag = tag};
}

IoRequest io_writev(int fd, uint64_t offset, std::span<const iovec> from, uint64_t tag) {
    return {.op = IoOp::write, .fd = fd, .offset = offset, .one = {}, .parts = from, .tag = tag};
}

IoRequest io_fdatasync(int fd, uint64_t tag) {
    return {.op = IoOp::fdatasync, .fd = fd, .offset = 0, .one = {}, .parts = {}, .tag = tag};
}

std::span<const iovec> io_parts(const IoRequest& request) {
    return request.parts.empty() ? std::span(&request.one, 1) : request.parts;
}

size_t io_bytes(const IoRequest& request) {
    size_t bytes = 0;
    for (const iovec& part : io_parts(request)) bytes += part.iov_len;
    return bytes;
}

Result<std::unique_ptr<IoEngine>> make_io_engine(const IoOptions& options) {
    if (options.queue_depth == 0 || options.queue_depth > 4096)
        return make_error(Code::invalid, "I/O queue depth must be 1 to 4096, not " +
                                             std::to_string(options.queue_depth));
    if (options.threads == 0 || options.threads > 64)
        return make_error(Code::invalid,
                          "I/O threads must be 1 to 64, not " + std::to_string(options.threads));
    if (options.kind == IoKind::threads) return make_thread_io(options);
    auto engine = make_uring_io(options);
    if (engine.ok() || options.kind == IoKind::uring) return engine;
    return make_thread_io(options);
}

std::vector<Result<size_t>> run_io(IoEngine& engine, std::span<const IoRequest> batch) {
    std::vector<Result<size_t>> results;
    results.reserve(batch.size());
    while (results.size() < batch.size()) {
        const size_t begin = results.size();
        const size_t count = std::min(batch.size() - begin, engine.queue_depth());
        std::vector<IoRequest> chunk(batch.begin() + static_cast<ptrdiff_t>(begin),
                                     batch.begin() + static_cast<ptrdiff_t>(begin + count));
        for (size_t i = 0; i < count; ++i) chunk[i].tag = i;
        // Shared with the completions: the last may still be unlocking when wait() returns.
        const auto gather = std::make_shared<Gather>(count);
        const Status status = engine.submit(
            chunk, [gather](uint64_t i, const Result<size_t>& result) { gather->put(i, result); });
        if (status.ok()) {
            std::ranges::move(gather->wait(), std::back_inserter(results));
        } else {
            results.insert(results.end(), count, status.error());
        }
    }
    return results;
}

}  // namespace quire
