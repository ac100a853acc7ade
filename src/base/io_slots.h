// IoSlots: the bounded table of requests in flight, shared by the I/O engines. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/io.h"
#include "base/io_transfer.h"

namespace quire {

class IoSlots {
 public:
    explicit IoSlots(size_t depth);

    // Claims one slot a request, in order; busy or invalid as IoEngine::submit.
    Result<std::vector<uint32_t>> claim(std::span<const IoRequest> batch, IoDone done);

    // The transfer in a claimed slot; its owner is whoever the slot was handed to.
    IoTransfer& transfer(uint32_t slot);

    // Frees the slot, then runs its completion.
    // REQUIRES: one thread at a time, as IoDone promises.
    void complete(uint32_t slot, const Result<size_t>& result);

    // Waits until nothing is claimed and no completion runs. Ends because every request completes.
    void wait_idle();

    size_t depth() const { return slots_.size(); }
    IoStats stats() const;

 private:
    struct Slot {
        IoTransfer transfer;
        std::shared_ptr<const IoDone> done;
        uint64_t tag = 0;
    };

    mutable std::mutex mutex_;
    std::condition_variable idle_;
    std::vector<Slot> slots_;
    std::vector<uint32_t> free_;
    IoStats stats_;
};

}  // namespace quire
