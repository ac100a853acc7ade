// ThrottledIo: an IoEngine whose reads come no faster than a thin link would bring them.
//
// Reads share one link, in the order of submission; everything else passes. For benches.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/io.h"

namespace quire::bench {

class ThrottledIo final : public IoEngine {
 public:
    ThrottledIo(std::unique_ptr<IoEngine> inner, double bytes_per_s);
    ~ThrottledIo() override;

    Status submit(std::span<const IoRequest> batch, IoDone done) override;
    std::string_view name() const override { return inner_->name(); }
    size_t queue_depth() const override { return inner_->queue_depth(); }
    IoStats stats() const override { return inner_->stats(); }

 private:
    struct Late {
        int64_t at_ns;
        uint64_t tag;
        Result<size_t> result;
        IoDone done;
    };
    void run();

    const double ns_per_byte_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Late> late_;
    int64_t link_free_ns_ = 0;
    bool stopping_ = false;
    std::unique_ptr<IoEngine> inner_;
    // tidy: allow(thread): the link, for as long as there is one
    std::thread thread_;  // all completions are its
};

}  // namespace quire::bench
