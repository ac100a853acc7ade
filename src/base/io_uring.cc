// The I/O engine on io_uring: one ring, submitted to by callers, reaped by one thread.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include <liburing.h>
#include <pthread.h>
#include <sched.h>

#include "base/check.h"
#include "base/io_backends.h"
#include "base/io_slots.h"

namespace quire {
namespace {

constexpr uint64_t kStop = ~uint64_t{0};
constexpr size_t kMaxCallBytes = size_t{1} << 30;  // what one call may move fits its 32-bit result
constexpr int kSubmitAttempts = 64;

void prepare(io_uring_sqe* sqe, const IoTransfer& transfer) {
    const auto parts = transfer.parts();
    const bool one = parts.size() == 1;
    const auto count = static_cast<unsigned>(parts.size());
    const auto bytes = one ? static_cast<unsigned>(std::min(parts[0].iov_len, kMaxCallBytes)) : 0;
    switch (transfer.op()) {
        case IoOp::nop:
            io_uring_prep_nop(sqe);
            break;
        case IoOp::read:
            one ? io_uring_prep_read(sqe, transfer.fd(), parts[0].iov_base, bytes,
                                     transfer.offset())
                : io_uring_prep_readv(sqe, transfer.fd(), parts.data(), count, transfer.offset());
            break;
        case IoOp::write:
            one ? io_uring_prep_write(sqe, transfer.fd(), parts[0].iov_base, bytes,
                                      transfer.offset())
                : io_uring_prep_writev(sqe, transfer.fd(), parts.data(), count, transfer.offset());
            break;
        case IoOp::fdatasync:
            io_uring_prep_fsync(sqe, transfer.fd(), IORING_FSYNC_DATASYNC);
            break;
        case IoOp::fsync:
            io_uring_prep_fsync(sqe, transfer.fd(), 0);
            break;
    }
}

class UringIo final : public IoEngine {
 public:
    explicit UringIo(size_t depth) : slots_(depth) {}

    // False: the kernel refuses; errno says why. The completion queue is twice the ring, and no
    // more requests than the ring's size are ever in flight, so it cannot overflow.
    bool start() {
        io_uring_params params{};
        const int status =
            io_uring_queue_init_params(static_cast<unsigned>(slots_.depth()) + 1, &ring_, &params);
        if (status < 0) {
            errno = -status;
            return false;
        }
        open_ = true;
        if ((params.features & IORING_FEAT_EXT_ARG) ==
            0) {  // waits with a timeout that leave the SQ alone
            errno = ENOSYS;
            return false;
        }
        reaper_ = std::thread([this] { reap(); });
        pthread_setname_np(reaper_.native_handle(), "quire-io");
        return true;
    }

    ~UringIo() override {
        if (reaper_.joinable()) {
            slots_.wait_idle();
            {
                std::lock_guard lock(submitting_);
                io_uring_sqe* sqe = next_sqe();
                io_uring_prep_nop(sqe);
                sqe->user_data = kStop;
                flush();
            }
            reaper_.join();
        }
        if (open_) io_uring_queue_exit(&ring_);
    }

    Status submit(std::span<const IoRequest> batch, IoDone done) override {
        const auto claimed = slots_.claim(batch, std::move(done));
        QUIRE_TRY(claimed);
        std::lock_guard lock(submitting_);
        for (const uint32_t slot : *claimed) push(slot);
        flush();
        return {};
    }

    std::string_view name() const override { return "io_uring"; }
    size_t queue_depth() const override { return slots_.depth(); }
    IoStats stats() const override { return slots_.stats(); }

 private:
    // The ring has an entry for every slot and one for kStop, so there is always one.
    io_uring_sqe* next_sqe() {
        io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
        QUIRE_CHECK(sqe != nullptr, "io_uring submission queue overflow");
        return sqe;
    }

    void push(uint32_t slot) {
        io_uring_sqe* sqe = next_sqe();
        prepare(sqe, slots_.transfer(slot));
        sqe->user_data = slot;
        handed_over_.fetch_add(1, std::memory_order_release);
    }

    // What the kernel does not take now (out of memory) the reaper offers again.
    void flush() {
        for (int attempt = 0; attempt < kSubmitAttempts && io_uring_sq_ready(&ring_) > 0; ++attempt)
            if (io_uring_submit(&ring_) < 0) sched_yield();
    }

    void reap() {
        std::array<io_uring_cqe*, 64> cqes{};
        bool stop = false;
        while (!stop) {
            __kernel_timespec second{.tv_sec = 1, .tv_nsec = 0};
            io_uring_cqe* first = nullptr;
            if (io_uring_wait_cqe_timeout(&ring_, &first, &second) < 0) {
                std::lock_guard lock(submitting_);
                flush();
                continue;
            }
            const unsigned count = io_uring_peek_batch_cqe(&ring_, cqes.data(), cqes.size());
            for (unsigned i = 0; i < count; ++i) {
                const uint64_t slot = cqes[i]->user_data;
                const int outcome = cqes[i]->res;
                io_uring_cqe_seen(&ring_, cqes[i]);
                slot == kStop ? void(stop = true) : took(static_cast<uint32_t>(slot), outcome);
            }
        }
    }

    void took(uint32_t slot, int outcome) {
        (void)handed_over_.load(std::memory_order_acquire);
        if (const auto result = slots_.transfer(slot).advance(outcome)) {
            slots_.complete(slot, *result);
            return;
        }
        std::lock_guard lock(submitting_);
        push(slot);
        flush();
    }

    IoSlots slots_;
    io_uring ring_{};
    bool open_ = false;
    std::mutex submitting_;  // guards the submission side of ring_; the other side is the reaper's
    // Orders push() before took() as the ring does, but where thread checkers can see it.
    std::atomic<uint64_t> handed_over_{0};
    std::thread reaper_;
};

}  // namespace

Result<std::unique_ptr<IoEngine>> make_uring_io(const IoOptions& options) {
    auto engine = std::make_unique<UringIo>(options.queue_depth);
    if (engine->start()) return std::unique_ptr<IoEngine>(std::move(engine));
    const int error_number = errno;
    return make_error(
        Code::unsupported,
        "the kernel refuses io_uring: " + std::generic_category().message(error_number) +
            "; use the thread pool instead",
        error_number);
}

}  // namespace quire
