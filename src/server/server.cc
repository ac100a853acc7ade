#include "server/server.h"

#include <chrono>
#include <future>
#include <thread>
#include <unordered_set>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include "base/log.h"
#include "base/resources.h"
#include "server/app.h"
#include "server/bound_port.h"
#include "server/session.h"

namespace quire::server {
namespace {

// After a drain, open replies get this long to reach their clients.
constexpr auto kLastWordsTime = std::chrono::seconds(2);
// After cutting connections, their sessions end at once unless a worker is busy for them.
constexpr auto kCutTime = std::chrono::seconds(10);
constexpr auto kAcceptRetryTime = std::chrono::milliseconds(100);

}  // namespace

struct Server::Impl {
    Impl(EngineApi& engine, Metrics& metrics, ServerOptions options)
        : app(engine, metrics, std::move(options)), acceptor(io), accept_retry(io), all_ended(io) {}

    awaitable<void> accept();
    awaitable<void> session(tcp::socket socket);
    void count_connections();
    void stop_accepting();
    void cut_all();
    awaitable<bool> wait_until_empty(std::chrono::nanoseconds limit);
    // Runs a step of shutting down on the I/O thread and waits for it.
    template <typename Step>
    void on_io(Step step);

    net::io_context io{1};
    App app;
    tcp::acceptor acceptor;
    tcp::endpoint where;
    net::steady_timer accept_retry;
    net::steady_timer all_ended;
    std::unordered_set<Connection*> connections;  // I/O thread
    std::atomic<uint32_t> connection_count{0};
    net::executor_work_guard<net::io_context::executor_type> keep_running{io.get_executor()};
    std::shared_ptr<void> load_gauges;
    std::thread thread;
};

awaitable<void> Server::Impl::accept() {
    while (acceptor.is_open()) {
        auto [error, socket] = co_await acceptor.async_accept(kAwait);
        if (error == net::error::operation_aborted || !acceptor.is_open()) break;
        if (error) {  // out of descriptors, most likely: wait for some to come back
            accept_retry.expires_after(kAcceptRetryTime);
            co_await accept_retry.async_wait(kAwait);
            continue;
        }
        if (connections.size() >= app.options.max_connections) {
            app.metrics.connection_refused();
            continue;  // closes it
        }
        net::co_spawn(io, session(std::move(socket)), net::detached);
    }
}

awaitable<void> Server::Impl::session(tcp::socket socket) {
    auto connection = std::make_shared<Connection>(std::move(socket), app.options);
    connections.insert(connection.get());
    count_connections();
    try {
        co_await run_session(app, connection);
    } catch (const std::exception& e) {  // memory, most likely: this connection pays, others go on
        log::error("session_failed", "a connection was cut: {}", e.what());
        connection->close();
    }
    connections.erase(connection.get());
    count_connections();
    if (connections.empty()) all_ended.cancel();
}

void Server::Impl::count_connections() {
    connection_count = static_cast<uint32_t>(connections.size());
    app.metrics.connections(connections.size());
}

void Server::Impl::stop_accepting() {
    ErrorCode ignored;
    acceptor.close(ignored);
    accept_retry.cancel();
    for (Connection* connection : connections) {
        if (connection->idle()) connection->close();
    }
}

void Server::Impl::cut_all() {
    for (Connection* connection : connections) connection->close();
}

awaitable<bool> Server::Impl::wait_until_empty(std::chrono::nanoseconds limit) {
    all_ended.expires_after(limit);
    while (!connections.empty()) {
        auto [error] = co_await all_ended.async_wait(kAwait);
        if (!error) break;
    }
    co_return connections.empty();
}

template <typename Step>
void Server::Impl::on_io(Step step) {
    net::co_spawn(io, [&]() -> awaitable<void> { co_await step(); }, net::use_future).wait();
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Server>> Server::start(EngineApi& engine, Metrics& metrics,
                                              ServerOptions options) {
    auto port = Port::bind(options);
    if (!port.ok()) return port.error();
    return start(engine, metrics, std::move(options), std::move(port).value());
}

Result<std::unique_ptr<Server>> Server::start(EngineApi& engine, Metrics& metrics,
                                              ServerOptions options, Port port) {
    return with_resources(
        [&] { return start_on(engine, metrics, std::move(options), std::move(port)); });
}

Result<std::unique_ptr<Server>> Server::start_on(EngineApi& engine, Metrics& metrics,
                                                 ServerOptions options, Port port) {
    auto impl = std::make_unique<Impl>(engine, metrics, std::move(options));
    auto acceptor = port.bound_->listen(impl->io.get_executor());
    if (!acceptor.ok()) return acceptor.error();
    impl->acceptor = std::move(acceptor).value();
    ErrorCode ignored;
    impl->where = impl->acceptor.local_endpoint(ignored);
    net::co_spawn(impl->io, impl->accept(), net::detached);
    impl->load_gauges = metrics.on_collect([&engine](Metrics& registry) {
        const EngineLoad load = engine.load();
        registry.gauge(Metric::requests_running).set(load.running);
        registry.gauge(Metric::requests_waiting).set(load.waiting);
    });
    impl->thread = std::thread([raw = impl.get()] { raw->io.run(); });
    return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::~Server() {
    impl_->app.draining = true;
    impl_->on_io([this]() -> awaitable<void> {
        impl_->stop_accepting();
        impl_->cut_all();
        co_await impl_->wait_until_empty(kCutTime);
    });
    impl_->keep_running.reset();
    impl_->io.stop();
    impl_->thread.join();
    // Workers still busy are waited for by the App, before the frames that they work in go with io.
}

uint16_t Server::port() const {
    return impl_->where.port();
}

std::string Server::url() const {
    const auto address = impl_->where.address();
    const std::string host = address.is_unspecified() ? "127.0.0.1" : address.to_string();
    return "http://" + (address.is_v6() && !address.is_unspecified() ? "[" + host + "]" : host) +
           ":" + std::to_string(port());
}

uint32_t Server::connections() const {
    return impl_->connection_count;
}

void Server::drain(int64_t timeout_ns) {
    impl_->app.draining = true;
    impl_->on_io([this]() -> awaitable<void> {
        impl_->stop_accepting();
        co_return;
    });
    impl_->app.engine.drain(timeout_ns);
    impl_->on_io([this]() -> awaitable<void> {
        co_await impl_->wait_until_empty(kLastWordsTime);
        co_return;
    });
}

}  // namespace quire::server
