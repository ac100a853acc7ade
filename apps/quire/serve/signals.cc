#include "apps/quire/serve/signals.h"

#include <chrono>
#include <csignal>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <unistd.h>

#include "base/log.h"

namespace quire {
namespace {

constexpr int kSignalExitBase = 128;

}  // namespace

void ignore_broken_pipes() {
    std::signal(SIGPIPE, SIG_IGN);
}

void wait_and_drain(const std::function<void()>& drain, int64_t limit_ns) {
    boost::asio::io_context io;
    boost::asio::signal_set signals(io, SIGINT, SIGTERM);
    boost::asio::steady_timer limit(io);
    // tidy: allow(thread): draining blocks while this thread waits for a second signal
    std::thread drainer;
    signals.async_wait([&](const boost::system::error_code&, int first) {
        // tidy: allow(thread): as above
        drainer = std::thread([&] {
            drain();
            boost::asio::post(io, [&] {
                signals.cancel();
                limit.cancel();
            });
        });
        limit.expires_after(std::chrono::nanoseconds(limit_ns));
        limit.async_wait([first](const boost::system::error_code& error) {
            if (error) return;
            log::error("drain_overdue", "something does not end; the process ends without it");
            ::_exit(kSignalExitBase + first);
        });
        signals.async_wait([](const boost::system::error_code& error, int signal) {
            if (!error) ::_exit(kSignalExitBase + signal);
        });
    });
    io.run();
    drainer.join();
}

}  // namespace quire
