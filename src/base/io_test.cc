#include "base/io.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <future>
#include <random>
#include <set>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/scratch_file.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> random_bytes(size_t size, uint64_t seed) {
    std::mt19937_64 rng(seed);
    std::vector<std::byte> bytes(size);
    for (std::byte& b : bytes) b = static_cast<std::byte>(rng());
    return bytes;
}

class IoEngineTest : public ::testing::TestWithParam<IoKind> {
 protected:
    std::unique_ptr<IoEngine> make(uint32_t queue_depth = 64) {
        auto engine =
            make_io_engine({.kind = GetParam(), .queue_depth = queue_depth, .threads = 3});
        if (!engine.ok()) return nullptr;  // a kernel that refuses io_uring: nothing to test
        return std::move(*engine);
    }
};

TEST_P(IoEngineTest, WrittenBytesComeBack) {
    const auto engine = make();
    if (!engine) return;
    const ScratchFile file;
    const auto data = random_bytes(300'000, 1);
    std::vector<IoRequest> writes, reads;
    std::vector<std::byte> back(data.size());
    for (size_t at = 0; at < data.size(); at += 7'000) {
        const size_t size = std::min<size_t>(7'000, data.size() - at);
        writes.push_back(io_write(file.fd(), at, std::span(data).subspan(at, size)));
        reads.push_back(io_read(file.fd(), at, std::span(back).subspan(at, size)));
    }
    for (const auto& result : run_io(*engine, writes))
        ASSERT_TRUE(result.ok()) << result.error().message;
    for (const auto& result : run_io(*engine, std::vector{io_fdatasync(file.fd())}))
        ASSERT_TRUE(result.ok()) << result.error().message;
    const auto results = run_io(*engine, reads);
    for (size_t i = 0; i < reads.size(); ++i) {
        ASSERT_TRUE(results[i].ok()) << results[i].error().message;
        EXPECT_EQ(*results[i], io_bytes(reads[i]));
    }
    EXPECT_EQ(back, data);
    EXPECT_EQ(engine->stats().write_bytes, data.size());
    EXPECT_EQ(engine->stats().read_bytes, data.size());
}

TEST_P(IoEngineTest, ScatterAndGather) {
    const auto engine = make();
    if (!engine) return;
    const ScratchFile file;
    auto a = random_bytes(1'000, 2), b = random_bytes(5, 3), c = random_bytes(4'096, 4);
    const std::vector<iovec> from = {
        {a.data(), a.size()}, {b.data(), b.size()}, {c.data(), c.size()}};
    std::vector<std::byte> head(1'005), tail(4'096);
    const std::vector<iovec> into = {{head.data(), head.size()}, {tail.data(), tail.size()}};
    auto results = run_io(*engine, std::vector{io_writev(file.fd(), 10, from)});
    ASSERT_TRUE(results[0].ok());
    EXPECT_EQ(*results[0], 5'101u);
    results = run_io(*engine, std::vector{io_readv(file.fd(), 10, into)});
    ASSERT_TRUE(results[0].ok());
    EXPECT_EQ(tail, c);
    EXPECT_EQ(std::memcmp(head.data() + 1'000, b.data(), 5), 0);
}

TEST_P(IoEngineTest, ReadsEndShortOnlyAtTheEndOfTheFile) {
    const auto engine = make();
    if (!engine) return;
    const ScratchFile file;
    const auto data = random_bytes(5'000, 5);
    ASSERT_EQ(::pwrite(file.fd(), data.data(), data.size(), 0), 5'000);
    std::vector<std::byte> into(8'192);
    const auto results =
        run_io(*engine, std::vector{io_read(file.fd(), 0, into), io_read(file.fd(), 5'000, into),
                                    io_read(file.fd(), 1 << 20, into)});
    ASSERT_TRUE(results[0].ok() && results[1].ok() && results[2].ok());
    EXPECT_EQ(*results[0], 5'000u);
    EXPECT_EQ(*results[1], 0u);
    EXPECT_EQ(*results[2], 0u);
}

TEST_P(IoEngineTest, DirectReadAcrossTheEndOfTheFile) {
    const auto engine = make();
    if (!engine) return;
    const ScratchFile file;
    const auto data = random_bytes(5'000, 6);
    ASSERT_EQ(::pwrite(file.fd(), data.data(), data.size(), 0), 5'000);
    ASSERT_EQ(::fsync(file.fd()), 0);
    const int direct = ::open(file.path().c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (direct < 0) return;  // a file system without O_DIRECT
    alignas(4096) static std::byte into[8'192];
    const auto results = run_io(*engine, std::vector{io_read(direct, 0, into)});
    ::close(direct);
    ASSERT_TRUE(results[0].ok()) << results[0].error().message;
    EXPECT_EQ(*results[0], 5'000u);
    EXPECT_EQ(std::memcmp(into, data.data(), data.size()), 0);
}

TEST_P(IoEngineTest, ErrorsNameTheFileAndCarryErrno) {
    const auto engine = make();
    if (!engine) return;
    const ScratchFile file;
    const int read_only = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
    const auto data = random_bytes(10, 7);
    const auto results = run_io(*engine, std::vector{io_write(read_only, 64, data)});
    ::close(read_only);
    ASSERT_EQ(results[0].code(), Code::io);
    EXPECT_EQ(results[0].error().detail, EBADF);
    EXPECT_THAT(results[0].error().message, HasSubstr("write of 10 bytes at offset 64"));
    EXPECT_THAT(results[0].error().message, HasSubstr(file.path()));
    EXPECT_EQ(engine->stats().errors, 1u);
}

TEST_P(IoEngineTest, AFullDeviceIsCodeFull) {
    const auto engine = make();
    const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (!engine || full < 0) return;
    const auto results = run_io(*engine, std::vector{io_write(full, 0, random_bytes(10, 8))});
    ::close(full);
    EXPECT_EQ(results[0].code(), Code::full);
    EXPECT_EQ(results[0].error().detail, ENOSPC);
}

TEST_P(IoEngineTest, MalformedAndOversizedBatchesAreInvalid) {
    const auto engine = make(4);
    if (!engine) return;
    std::vector<IoRequest> five(5);
    EXPECT_EQ(engine->submit(five, {}).code(), Code::invalid);
    std::byte byte{};
    EXPECT_EQ(engine->submit(std::vector{io_read(-1, 0, {&byte, 1})}, {}).code(), Code::invalid);
    const std::vector<iovec> many(kMaxIoParts + 1);
    EXPECT_EQ(engine->submit(std::vector{io_readv(0, 0, many)}, {}).code(), Code::invalid);
    EXPECT_EQ(engine->stats().requests, 0u);
}

// The queue is filled while one completion is held open, so that the bound must show.
TEST_P(IoEngineTest, QueueIsBounded) {
    // Before the engine, which waits for its completions on destruction.
    std::promise<void> open, done;
    std::shared_future<void> gate = open.get_future().share();
    std::atomic<int> completed{0}, accepted{0};
    const auto engine = make(4);
    if (!engine) return;
    const auto count = [&](uint64_t, const Result<size_t>&) {
        if (++completed == accepted) done.set_value();
    };
    ASSERT_TRUE(
        engine
            ->submit(std::vector<IoRequest>(1),
                     [&](uint64_t, const Result<size_t>&) {
                         gate.wait();
                         const Status status = engine->submit(std::vector<IoRequest>(1), count);
                         EXPECT_EQ(status.code(), Code::busy);  // four are queued behind this one
                     })
            .ok());
    while (engine->stats().pending != 1 || !engine->submit(std::vector<IoRequest>(4), count).ok())
        std::this_thread::yield();  // until the first has freed its slot and sits in its completion
    accepted = 4;
    EXPECT_EQ(engine->submit(std::vector<IoRequest>(1), count).code(), Code::busy);
    open.set_value();
    done.get_future().wait();
}

TEST_P(IoEngineTest, CompletionsMaySubmit) {
    std::promise<void> done;
    int left = 50;
    std::unique_ptr<IoEngine> engine;
    IoDone next = [&](uint64_t, const Result<size_t>&) {
        if (--left == 0) return done.set_value();
        EXPECT_TRUE(engine->submit(std::vector<IoRequest>(1), next).ok());
    };
    engine = make(1);
    if (!engine) return;
    ASSERT_TRUE(engine->submit(std::vector<IoRequest>(1), next).ok());
    done.get_future().wait();
    engine.reset();
    EXPECT_EQ(left, 0);
}

TEST_P(IoEngineTest, ManyThreadsEveryRequestCompletesOnce) {
    const auto engine = make(32);
    if (!engine) return;
    const ScratchFile file;
    constexpr int kThreads = 4, kRounds = 200;
    std::atomic<int> inside{0}, overlaps{0}, completions{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
            const auto data = random_bytes(512, static_cast<uint64_t>(t));
            for (int round = 0; round < kRounds;) {
                const auto at = static_cast<uint64_t>(t * kRounds + round) * 512;
                const Status status =
                    engine->submit(std::vector{io_write(file.fd(), at, data, at)},
                                   [&, at](uint64_t tag, const Result<size_t>& result) {
                                       if (++inside != 1) ++overlaps;
                                       if (tag == at && result.ok() && *result == 512)
                                           ++completions;
                                       --inside;
                                   });
                status.ok() ? ++round : (std::this_thread::yield(), 0);
            }
            while (engine->stats().pending > 0) std::this_thread::yield();
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(completions, kThreads * kRounds);
    EXPECT_EQ(overlaps, 0);
    EXPECT_EQ(engine->stats().requests, static_cast<uint64_t>(kThreads * kRounds));
}

TEST_P(IoEngineTest, DestructionWaitsForWhatWasAccepted) {
    std::atomic<int> completions{0};
    {
        const auto engine = make(64);
        if (!engine) return;
        ASSERT_TRUE(engine
                        ->submit(std::vector<IoRequest>(64),
                                 [&](uint64_t, const Result<size_t>&) { ++completions; })
                        .ok());
    }
    EXPECT_EQ(completions, 64);
}

INSTANTIATE_TEST_SUITE_P(Engines, IoEngineTest, ::testing::Values(IoKind::uring, IoKind::threads),
                         [](const auto& kind) {
                             return kind.param == IoKind::uring ? "Uring" : "Threads";
                         });

TEST(IoEngine, AutomaticAlwaysFindsOneAndBadOptionsAreInvalid) {
    EXPECT_TRUE(make_io_engine({}).ok());
    EXPECT_EQ(make_io_engine({.queue_depth = 0}).code(), Code::invalid);
    EXPECT_EQ(make_io_engine({.queue_depth = 4097}).code(), Code::invalid);
    EXPECT_EQ(make_io_engine({.threads = 0}).code(), Code::invalid);
}

}  // namespace
}  // namespace quire
