// Unpacker: the get path of a PackedStore.
//
// A get is read in small batches straight into the callers' buffers, few at a time; each slab that
// has arrived is unpacked in place by a pool of threads, which may be others' too.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/executor.h"
#include "base/log.h"
#include "tier/packed/pack_counters.h"
#include "tier/packed/packed_store.h"

namespace quire {

class Unpacker {
 public:
    Unpacker(TierStore& inner, const PackedOptions& options, PackCounters& counters);
    ~Unpacker();  // waits for what was accepted

    // busy: the store below took nothing; done is then not called.
    Status get(std::vector<TierGet> batch, TierDone done);

 private:
    struct Job;
    Status read_next(const std::shared_ptr<Job>& job);
    void read_on(const std::shared_ptr<Job>& job);
    void arrived(const std::shared_ptr<Job>& job, size_t first, std::span<const Status> results);
    void refuse_unread(const std::shared_ptr<Job>& job, const Status& why);
    void submit(std::function<void()> task);
    void unpack(Job& job, size_t i);
    void settle(const std::shared_ptr<Job>& job, size_t slabs);
    void enter();
    void leave();

    TierStore& inner_;
    const PackedOptions options_;
    PackCounters& counters_;
    log::Limiter limited_log_;
    std::mutex mutex_;
    std::condition_variable idle_;
    uint64_t inside_ = 0;  // jobs, tasks, and calls of the store's, that use this object
    const std::shared_ptr<ThreadPool> threads_;
};

}  // namespace quire
