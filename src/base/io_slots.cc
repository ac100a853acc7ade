#include "base/io_slots.h"

#include <string>
#include <utility>

namespace quire {
namespace {

Status validate(std::span<const IoRequest> batch, size_t depth) {
    if (batch.size() > depth)
        return make_error(Code::invalid, "I/O batch of " + std::to_string(batch.size()) +
                                             " requests exceeds the queue depth of " +
                                             std::to_string(depth));
    for (const IoRequest& request : batch) {
        if (request.op != IoOp::nop && request.fd < 0)
            return make_error(Code::invalid,
                              "I/O request on descriptor " + std::to_string(request.fd));
        if (request.parts.size() > kMaxIoParts)
            return make_error(Code::invalid, "I/O request of " +
                                                 std::to_string(request.parts.size()) +
                                                 " parts; at most " + std::to_string(kMaxIoParts));
    }
    return {};
}

}  // namespace

IoSlots::IoSlots(size_t depth) : slots_(depth) {
    free_.reserve(depth);
    for (size_t i = depth; i > 0; --i) free_.push_back(static_cast<uint32_t>(i - 1));
}

Result<std::vector<uint32_t>> IoSlots::claim(std::span<const IoRequest> batch, IoDone done) {
    QUIRE_TRY(validate(batch, depth()));
    const auto shared = std::make_shared<const IoDone>(std::move(done));
    std::vector<uint32_t> claimed;
    claimed.reserve(batch.size());
    std::lock_guard lock(mutex_);
    if (batch.size() > free_.size())
        return make_error(Code::busy, "I/O queue has room for " + std::to_string(free_.size()) +
                                          " requests, not " + std::to_string(batch.size()));
    for (const IoRequest& request : batch) {
        const uint32_t slot = free_.back();
        free_.pop_back();
        slots_[slot] = {IoTransfer(request), shared, request.tag};
        claimed.push_back(slot);
    }
    stats_.requests += batch.size();
    stats_.pending += batch.size();
    return claimed;
}

IoTransfer& IoSlots::transfer(uint32_t slot) {
    std::lock_guard lock(mutex_);  // orders this after the claim, which another thread made
    return slots_[slot].transfer;
}

void IoSlots::complete(uint32_t slot, const Result<size_t>& result) {
    std::shared_ptr<const IoDone> done;
    uint64_t tag = 0;
    {
        std::lock_guard lock(mutex_);
        Slot& s = slots_[slot];
        done = std::move(s.done);
        tag = s.tag;
        stats_.continued += s.transfer.continued();
        if (!result.ok()) ++stats_.errors;
        if (result.ok() && s.transfer.op() == IoOp::read) stats_.read_bytes += *result;
        if (result.ok() && s.transfer.op() == IoOp::write) stats_.write_bytes += *result;
        free_.push_back(slot);
    }
    if (*done) (*done)(tag, result);
    done.reset();  // before idle: the callback may own what the engine's owner is about to destroy
    std::lock_guard lock(mutex_);
    if (--stats_.pending == 0) idle_.notify_all();
}

void IoSlots::wait_idle() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return stats_.pending == 0; });
}

IoStats IoSlots::stats() const {
    std::lock_guard lock(mutex_);
    return stats_;
}

}  // namespace quire
