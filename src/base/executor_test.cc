#include "base/executor.h"

#include <array>
#include <atomic>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

namespace quire {
namespace {

using ::testing::HasSubstr;

TEST(ThreadPool, RunsEverythingItAccepted) {
    std::atomic<int> ran{0};
    int accepted = 0;
    {
        ThreadPool pool("test", 3, 16);
        for (int i = 0; i < 1000; ++i) accepted += pool.submit([&ran] { ++ran; }).ok();
    }
    EXPECT_GE(accepted, 16);
    EXPECT_EQ(ran, accepted);
}

TEST(ThreadPool, AFullQueueIsBusy) {
    std::promise<void> open;
    std::promise<void> started;
    auto gate = open.get_future().share();
    ThreadPool pool("stores", 1, 2);
    ASSERT_TRUE(pool.submit([&] {
                        started.set_value();
                        gate.wait();
                    })
                    .ok());
    started.get_future().wait();  // the queue is empty again, its one thread taken
    EXPECT_TRUE(pool.submit([] {}).ok());
    EXPECT_TRUE(pool.submit([] {}).ok());
    EXPECT_EQ(pool.queued(), 2u);
    const Status status = pool.submit([] {});
    ASSERT_EQ(status.code(), Code::busy);
    EXPECT_THAT(status.error().message, HasSubstr("stores"));
    open.set_value();
    pool.drain();
    EXPECT_EQ(pool.queued(), 0u);
}

TEST(ThreadPool, DrainWaitsForRunningTasks) {
    ThreadPool pool("test", 2, 64);
    int plain = 0;  // no atomic: drain() must order the tasks before what follows
    for (int i = 0; i < 50; ++i) {
        ASSERT_TRUE(pool.submit([&plain] { ++plain; }).ok());
        pool.drain();
        ASSERT_EQ(plain, i + 1);
    }
}

TEST(ThreadPool, TasksMaySubmitTasks) {
    std::promise<int> done;
    ThreadPool pool("test", 1, 4);
    ASSERT_TRUE(
        pool.submit([&] { EXPECT_TRUE(pool.submit([&] { done.set_value(7); }).ok()); }).ok());
    EXPECT_EQ(done.get_future().get(), 7);
}

TEST(ThreadPool, ThreadsCarryTheName) {
    std::promise<std::string> name;
    ThreadPool pool("a-rather-long-name", 1, 1);
    ASSERT_TRUE(pool.submit([&] {
                        std::array<char, 32> text{};
                        pthread_getname_np(pthread_self(), text.data(), text.size());
                        name.set_value(text.data());
                    })
                    .ok());
    EXPECT_EQ(name.get_future().get(), "a-rather-long-n");
}

}  // namespace
}  // namespace quire
