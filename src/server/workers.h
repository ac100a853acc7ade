// A few threads for what may take milliseconds (tokenizing, templates, flushes), away from the I/O
// thread, so that one long prompt does not stall the streams of others. Work of different lengths
// has Workers of its own, so that what takes long is not waited for by what does not.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include "base/check.h"
#include "base/executor.h"
#include "server/net.h"

namespace quire::server {

class Workers {
 public:
    // Throws std::system_error when the machine gives no more threads. (Asio's own pool would wait
    // for ever then, for those threads that there are.)
    Workers(std::string name, uint32_t threads) : pool_(std::move(name), threads, UINT32_MAX) {}

    // Runs `work` on a worker and resumes the caller, on its own thread, with what it returned.
    // Cannot be cancelled: `work` must end by itself, and what it refers to lives in the caller's
    // frame. The queue is bounded by the number of connections, each of which waits here at most
    // once.
    // What `work` throws (only memory can run out) is thrown here.
    template <typename Work>
    awaitable<std::invoke_result_t<Work&>> run(Work work) {
        using Value = std::invoke_result_t<Work&>;
        auto start = [this, &work](auto handler) {
            auto caller = net::get_associated_executor(handler);
            // A function of the pool can be copied; a handler cannot.
            auto shared = std::make_shared<decltype(handler)>(std::move(handler));
            const Status accepted =
                pool_.submit([&work, shared, guard = net::make_work_guard(caller)] {
                    net::post(guard.get_executor(),
                              [outcome = outcome_of<Value>(work), shared]() mutable {
                                  std::move (*shared)(std::move(outcome));
                              });
                });
            QUIRE_CHECK(accepted.ok(), "a queue without a bound of its own was full");
        };
        auto outcome =
            co_await net::async_initiate<const net::use_awaitable_t<>, void(Outcome<Value>)>(
                start, net::use_awaitable);
        if (outcome.index() == 1) std::rethrow_exception(std::get<1>(outcome));
        co_return std::get<0>(std::move(outcome));
    }

 private:
    template <typename Value>
    using Outcome = std::variant<Value, std::exception_ptr>;

    template <typename Value, typename Work>
    static Outcome<Value> outcome_of(Work& work) {
        try {
            return Outcome<Value>(std::in_place_index<0>, work());
        } catch (...) {
            return Outcome<Value>(std::in_place_index<1>, std::current_exception());
        }
    }

    ThreadPool pool_;  // its destructor finishes what was begun or waits
};

}  // namespace quire::server
