// FaultIo: an IoEngine that fails on purpose, for tests of what stands on top.
//
// Wraps an engine and applies a list of faults to the requests that match them, counted in the
// order of submission, so that a single-threaded test is deterministic. The first live fault that
// matches wins.
#pragma once

#include <cerrno>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/io.h"

namespace quire {

enum class FaultKind : uint8_t {
    error,  // nothing is transferred; completes with `error_number`
    cut,   // a read ends after `bytes`, as at the end of a file; a write stores `bytes`, then fails
    torn,  // a write stores only its first `bytes` and reports success, as a disk that lost power
    bit_flip,  // bit `bit` of what is read, or of what is stored, is inverted; reports success
    hold,      // waits in FaultIo until release_held()
};

struct Fault {
    FaultKind kind = FaultKind::error;
    int error_number = EIO;  // error, cut
    uint64_t bytes = 0;      // cut, torn
    uint64_t bit = 0;        // bit_flip; modulo the bits of the request

    // Which requests: all conditions that are set must hold.
    std::optional<IoOp> op;
    int fd = -1;                                    // -1: any
    std::string path_part;                          // empty: any; else part of the fd's path
    std::function<bool(const IoRequest&)> matches;  // empty: any

    uint64_t skip = 0;   // let this many matching requests pass
    uint64_t times = 1;  // then apply to this many; kAlways: for good
};
inline constexpr uint64_t kAlways = std::numeric_limits<uint64_t>::max();

class FaultIo final : public IoEngine {
 public:
    explicit FaultIo(std::unique_ptr<IoEngine> inner);
    ~FaultIo() override;  // releases what is held and waits for it

    void add(Fault fault);
    void clear();           // forgets all faults; what is held stays held
    uint64_t hits() const;  // requests that a fault was applied to
    size_t held() const;
    // Passes up to `count` held requests on, oldest first; returns how many went (fewer when the
    // inner engine is busy).
    size_t release_held(size_t count = std::numeric_limits<size_t>::max());

    Status submit(std::span<const IoRequest> batch, IoDone done) override;
    std::string_view name() const override { return inner_->name(); }
    size_t queue_depth() const override { return inner_->queue_depth(); }
    IoStats stats() const override;

 private:
    struct Active {
        Fault fault;
        uint64_t seen = 0;
    };
    struct Held {
        IoRequest request;
        IoDone done;
    };

    std::optional<Fault> fault_for(const IoRequest& request);

    std::unique_ptr<IoEngine> inner_;
    std::mutex submitting_;
    mutable std::mutex mutex_;
    std::vector<Active> faults_;
    std::deque<Held> held_;
    uint64_t hits_ = 0;
};

}  // namespace quire
