#include "apps/quire/serve/signals.h"

#include <csignal>
#include <iostream>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <unistd.h>

namespace quire {
namespace {

constexpr int kSignalExitBase = 128;

}  // namespace

void wait_and_drain(const std::function<void()>& drain) {
    boost::asio::io_context io;
    boost::asio::signal_set signals(io, SIGINT, SIGTERM);
    // tidy: allow(thread): draining blocks while this thread waits for a second signal
    std::thread drainer;
    signals.async_wait([&](const boost::system::error_code&, int) {
        // tidy: allow(thread): as above
        drainer = std::thread([&] {
            drain();
            boost::asio::post(io, [&] { signals.cancel(); });
        });
        signals.async_wait([](const boost::system::error_code& error, int signal) {
            if (!error) ::_exit(kSignalExitBase + signal);
        });
    });
    io.run();
    drainer.join();
}

}  // namespace quire
