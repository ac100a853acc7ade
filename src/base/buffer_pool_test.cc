#include "base/buffer_pool.h"

#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/units.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

TEST(BufferPool, BuffersAreAlignedDistinctAndBounded) {
    const auto pool = std::move(*BufferPool::create(5000, 3));
    EXPECT_EQ(pool->buffer_bytes(), 8192u);
    std::vector<PooledBuffer> taken;
    std::set<std::byte*> addresses;
    for (int i = 0; i < 3; ++i) {
        auto buffer = pool->try_take();
        ASSERT_TRUE(buffer.has_value());
        EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->bytes().data()) % 4096, 0u);
        EXPECT_EQ(buffer->bytes().size(), 8192u);
        addresses.insert(buffer->bytes().data());
        taken.push_back(std::move(*buffer));
    }
    EXPECT_EQ(addresses.size(), 3u);
    EXPECT_FALSE(pool->try_take().has_value());
    EXPECT_EQ(pool->stats().lent, 3u);
    taken.pop_back();
    EXPECT_TRUE(pool->try_take().has_value());
    taken.clear();
    EXPECT_EQ(pool->stats().lent, 0u);
}

TEST(BufferPool, MovedBuffersGoBackOnce) {
    const auto pool = std::move(*BufferPool::create(4096, 2));
    {
        PooledBuffer a = std::move(*pool->try_take());
        PooledBuffer b = std::move(a);
        EXPECT_FALSE(a);
        PooledBuffer c = std::move(*pool->try_take());
        c = std::move(b);
        EXPECT_TRUE(c);
    }
    EXPECT_EQ(pool->stats().lent, 0u);
}

TEST(BufferPool, TakeTimesOutNamingThePool) {
    const auto pool = std::move(*BufferPool::create(4096, 1));
    const auto held = pool->take(0);
    ASSERT_TRUE(held.ok());
    const auto none = pool->take(kNsPerMs);
    ASSERT_EQ(none.code(), Code::timeout);
    EXPECT_THAT(none.error().message, HasSubstr("none of 1 buffers of 4.00 KiB"));
}

TEST(BufferPool, TakeWaitsForAReturn) {
    const auto pool = std::move(*BufferPool::create(4096, 1));
    auto held = pool->try_take();
    std::thread waiter([&] { EXPECT_TRUE(pool->take(60 * kNsPerSecond).ok()); });
    while (pool->stats().waiting == 0) std::this_thread::yield();
    held.reset();
    waiter.join();
}

TEST(BufferPool, ThreadsNeverShareABuffer) {
    const auto pool = std::move(*BufferPool::create(4096, 3));
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t)
        threads.emplace_back([&pool, t] {
            for (int i = 0; i < 300; ++i) {
                const auto buffer = pool->take(60 * kNsPerSecond);
                ASSERT_TRUE(buffer.ok());
                const auto mine = static_cast<std::byte>(t);
                for (std::byte& b : buffer->bytes().first(64)) b = mine;
                for (const std::byte b : buffer->bytes().first(64)) ASSERT_EQ(b, mine);
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(pool->stats().lent, 0u);
}

TEST(BufferPool, BadSizesAreRefused) {
    EXPECT_EQ(BufferPool::create(0, 1).code(), Code::invalid);
    EXPECT_EQ(BufferPool::create(1, 0).code(), Code::invalid);
    EXPECT_EQ(BufferPool::create(~size_t{0}, ~size_t{0}).code(), Code::invalid);
    EXPECT_EQ(BufferPool::create(size_t{1} << 30, size_t{1} << 30).code(), Code::full);
}

}  // namespace
}  // namespace quire
