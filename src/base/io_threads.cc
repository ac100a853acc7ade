// The I/O engine for kernels and containers that refuse io_uring: threads around preadv and
// pwritev.
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include <pthread.h>
#include <unistd.h>

#include "base/io_backends.h"
#include "base/io_slots.h"

namespace quire {
namespace {

int64_t call(const IoTransfer& transfer) {
    const auto parts = transfer.parts();
    const auto offset = static_cast<off_t>(transfer.offset());
    ssize_t outcome = 0;
    switch (transfer.op()) {
        case IoOp::nop:
            return 0;
        case IoOp::read:
            outcome = ::preadv(transfer.fd(), parts.data(), static_cast<int>(parts.size()), offset);
            break;
        case IoOp::write:
            outcome =
                ::pwritev(transfer.fd(), parts.data(), static_cast<int>(parts.size()), offset);
            break;
        case IoOp::fdatasync:
            outcome = ::fdatasync(transfer.fd());
            break;
        case IoOp::fsync:
            outcome = ::fsync(transfer.fd());
            break;
    }
    return outcome < 0 ? -errno : outcome;
}

class ThreadIo final : public IoEngine {
 public:
    explicit ThreadIo(const IoOptions& options) : slots_(options.queue_depth) {
        try {
            for (uint32_t i = 0; i < options.threads; ++i) {
                workers_.emplace_back([this] { work(); });
                pthread_setname_np(workers_.back().native_handle(), "quire-io");
            }
        } catch (...) {  // no more threads to be had: without those that there are, and tell
            stop();
            throw;
        }
    }

    ~ThreadIo() override {
        slots_.wait_idle();
        stop();
    }

    Status submit(std::span<const IoRequest> batch, IoDone done) override {
        const auto claimed = slots_.claim(batch, std::move(done));
        QUIRE_TRY(claimed);
        {
            std::lock_guard lock(mutex_);
            queue_.insert(queue_.end(), claimed->begin(), claimed->end());
        }
        batch.size() == 1 ? ready_.notify_one() : ready_.notify_all();
        return {};
    }

    std::string_view name() const override { return "threads"; }
    size_t queue_depth() const override { return slots_.depth(); }
    IoStats stats() const override { return slots_.stats(); }

 private:
    void stop() {
        {
            std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        ready_.notify_all();
        for (std::thread& worker : workers_) worker.join();
    }

    std::optional<uint32_t> next() {
        std::unique_lock lock(mutex_);
        ready_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
        if (queue_.empty()) return std::nullopt;
        const uint32_t slot = queue_.front();
        queue_.pop_front();
        return slot;
    }

    void work() {
        while (const std::optional<uint32_t> slot = next()) {
            IoTransfer& transfer = slots_.transfer(*slot);
            std::optional<Result<size_t>> result;
            while (!result) result = transfer.advance(call(transfer));
            std::lock_guard lock(completing_);
            slots_.complete(*slot, *result);
        }
    }

    IoSlots slots_;
    std::mutex mutex_;
    std::condition_variable ready_;
    std::deque<uint32_t> queue_;
    bool stopping_ = false;
    std::mutex completing_;
    std::vector<std::thread> workers_;
};

}  // namespace

Result<std::unique_ptr<IoEngine>> make_thread_io(const IoOptions& options) {
    return std::unique_ptr<IoEngine>(std::make_unique<ThreadIo>(options));
}

}  // namespace quire
