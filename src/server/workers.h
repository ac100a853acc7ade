// A few threads for what may take milliseconds (tokenizing, templates, flushes), away from the I/O
// thread, so that one long prompt does not stall the streams of others.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include "server/net.h"

namespace quire::server {

class Workers {
 public:
    explicit Workers(uint32_t threads) : pool_(threads) {}
    // Waits for what is running.
    ~Workers() { stop(); }
    void stop() { pool_.join(); }

    // Runs `work` on a worker and resumes the caller, on its own thread, with what it returned.
    // Cannot be cancelled: `work` must end by itself, and what it refers to lives in the caller's
    // frame. The queue is bounded by the number of connections, each of which waits here at most
    // once.
    template <typename Work>
    awaitable<std::invoke_result_t<Work&>> run(Work work) {
        using Value = std::invoke_result_t<Work&>;
        auto start = [this, work = std::move(work)](auto handler) mutable {
            auto caller = net::get_associated_executor(handler);
            net::post(pool_, [work = std::move(work), handler = std::move(handler),
                              guard = net::make_work_guard(caller)]() mutable {
                auto executor = guard.get_executor();
                net::post(executor, [value = work(), handler = std::move(handler)]() mutable {
                    std::move(handler)(std::move(value));
                });
            });
        };
        return net::async_initiate<const net::use_awaitable_t<>, void(Value)>(std::move(start),
                                                                              net::use_awaitable);
    }

 private:
    net::thread_pool pool_;
};

}  // namespace quire::server
