#include "server/event_queue.h"

#include <memory>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "server/server_options.h"

namespace quire::server {
namespace {

TEST(EventQueue, CarriesEventsInOrder) {
    net::io_context io;
    auto queue = std::make_shared<EventQueue>(io.get_executor());
    queue->push(0, {});
    queue->push(1, {});
    std::vector<ChoiceEvent> events;
    net::co_spawn(
        io, [&]() -> awaitable<void> { events = co_await queue->next(kSecondNs); }, net::detached);
    io.run();
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0].choice, 0u);
    EXPECT_EQ(events[1].choice, 1u);
}

// An engine may hold a sink, and push to it, after the server that waited for it has gone.
TEST(EventQueue, OutlivesItsIoOnceClosed) {
    std::shared_ptr<EventQueue> queue;
    {
        net::io_context io;
        queue = std::make_shared<EventQueue>(io.get_executor());
        queue->push(0, {});
        queue->close();
        io.run();
    }
    queue->push(0, {});
    queue->set_client_gone();
    EXPECT_TRUE(queue->client_gone());
    queue.reset();
}

}  // namespace
}  // namespace quire::server
