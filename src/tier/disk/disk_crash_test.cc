// A writer killed with -9 at random points, again and again on one directory. Reopened: everything
// that was acknowledged is there, and whatever is served is byte-right.
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tier/testing/crash_blocks.h"
#include "tier/testing/disk_fixture.h"

extern char** environ;

namespace quire {
namespace {

using namespace quire::testing;

int rounds() {
    const char* wanted = std::getenv("QUIRE_TEST_LONG");
    if (wanted != nullptr && wanted[0] == '1') return 1000;
#ifdef QUIRE_SANITIZED
    return 10;  // the plain build does the fifty
#else
    return 50;
#endif
}

class Victim {
 public:
    Victim(const std::string& dir, uint64_t capacity_bytes, uint64_t first) {
        int ends[2];
        QUIRE_CHECK(::pipe2(ends, O_CLOEXEC) == 0, "no pipe");
        posix_spawn_file_actions_t actions;
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        std::vector<std::string> words = {QUIRE_CRASH_WRITER, dir, std::to_string(capacity_bytes),
                                          std::to_string(first)};
        std::vector<char*> args;
        for (std::string& word : words) args.push_back(word.data());
        args.push_back(nullptr);
        int error = ::posix_spawn(&pid_, args[0], &actions, nullptr, args.data(), environ);
        ::posix_spawn_file_actions_destroy(&actions);
        ::close(ends[1]);
        QUIRE_CHECK(error == 0, "cannot start the crash writer");
        pipe_ = ends[0];
    }
    ~Victim() { ::close(pipe_); }

    // Reads acknowledgements until `grace_us` after the first one, kills the writer and collects
    // what it had still said. Returns the acknowledged batches' first blocks.
    std::vector<uint64_t> run_and_kill(int64_t grace_us) {
        std::vector<uint64_t> acknowledged;
        int64_t end = INT64_MAX;
        while (system_clock().monotonic_ns() < end) {
            pollfd wait{pipe_, POLLIN, 0};
            int timeout_ms = end == INT64_MAX ? 30'000 : 1;
            if (::poll(&wait, 1, timeout_ms) <= 0) {
                if (end == INT64_MAX) break;  // it never began: the exit status says why
                continue;
            }
            if (!read_one(acknowledged)) break;
            if (end == INT64_MAX) end = system_clock().monotonic_ns() + grace_us * 1000;
        }
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, &status_, 0);
        while (read_one(acknowledged)) {
        }
        return acknowledged;
    }
    // Killed, or done before that; anything else is a failure of the writer.
    bool died_well() const {
        return WIFSIGNALED(status_) ? WTERMSIG(status_) == SIGKILL : WEXITSTATUS(status_) == 0;
    }
    int status() const { return status_; }

 private:
    bool read_one(std::vector<uint64_t>& into) const {
        uint64_t first = 0;
        if (::read(pipe_, &first, sizeof(first)) != sizeof(first)) return false;
        into.push_back(first);
        return true;
    }

    pid_t pid_ = 0;
    int pipe_ = -1;
    int status_ = 0;
};

// Reads every block the store lists; all must be right. `numbers` are all that were ever put.
size_t check_everything(TierStore& store, uint64_t numbers) {
    std::map<BlockKey, uint64_t> by_key;
    for (uint64_t i = 1; i <= numbers; i++) by_key[test_key(i)] = i;
    auto entries = store.list();
    EXPECT_TRUE(entries.ok());
    std::vector<AlignedBytes> into;
    std::vector<TierGet> gets;
    for (const TierEntry& entry : *entries) {
        into.emplace_back(entry.bytes);
        gets.push_back({entry.key, into.back().span()});
    }
    size_t right = 0;
    auto results = get_wait(store, gets);
    for (size_t i = 0; i < gets.size(); i++) {
        EXPECT_TRUE(results[i].ok()) << results[i].error().message;
        auto known = by_key.find(gets[i].key);
        EXPECT_TRUE(known != by_key.end()) << "a block that nobody put";
        if (known == by_key.end()) continue;
        EXPECT_TRUE(same_bytes(into[i], crash_block(known->second))) << known->second;
        right++;
    }
    return right;
}

class Crash {
 public:
    Crash(uint64_t capacity_bytes, uint64_t seed) : random_(seed) {
        options_ = DiskFixture::defaults();
        options_.dir = dir_.path();
        options_.capacity_bytes = capacity_bytes;
        options_.segment_bytes = 1 << 20;
    }

    // One life and death; returns false when the test should stop.
    bool round(int number, bool all_kept) {
        Victim victim(dir_.path(), options_.capacity_bytes, next_);
        auto acknowledged = victim.run_and_kill(static_cast<int64_t>(random_() % 25'000));
        EXPECT_TRUE(victim.died_well()) << "round " << number << " status " << victim.status();
        for (uint64_t first : acknowledged) {
            for (uint64_t i = 0; i < kCrashBatch; i++) acked_.push_back(first + i);
        }
        next_ += 500 * kCrashBatch;
        // Often the next life recovers from the crash itself, without a clean close between.
        if (number % 5 != 4) return !::testing::Test::HasFailure();
        DiskFixture disk(options_);
        if (all_kept) {
            size_t lost = 0;
            for (uint64_t block : acked_) lost += !holds(disk.store(), test_key(block));
            EXPECT_EQ(lost, 0u) << "round " << number << ": acknowledged, but gone";
        }
        EXPECT_GT(check_everything(disk.store(), next_), 0u);
        EXPECT_EQ(disk.store().stats().corrupt_blocks, 0u);
        EXPECT_LE(dir_.bytes(), options_.capacity_bytes);
        return !::testing::Test::HasFailure();
    }
    size_t acknowledged() const { return acked_.size(); }

 private:
    TempDir dir_;
    DiskOptions options_;
    std::mt19937_64 random_;
    uint64_t next_ = 16;
    std::vector<uint64_t> acked_;
};

TEST(DiskCrash, NothingAcknowledgedIsLost) {
    const uint64_t seed = static_cast<uint64_t>(system_clock().wall_ns());  // printed
    SCOPED_TRACE("seed " + std::to_string(seed));
    Crash crash(8ull << 30, seed);
    for (int i = 0; i < rounds(); i++) {
        if (!crash.round(i, true)) break;
    }
    EXPECT_GT(crash.acknowledged(), 50u);
}

TEST(DiskCrash, WhileCleaningOnlyRightBytesAreServed) {
    const uint64_t seed = 20261129;
    SCOPED_TRACE("seed " + std::to_string(seed));
    Crash crash(16 << 20, seed);
    for (int i = 0; i < rounds() / 2; i++) {
        if (!crash.round(i, false)) break;
    }
}

}  // namespace
}  // namespace quire
