#include "tier/disk/disk_reference.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <sstream>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "format/record.h"

extern char** environ;

namespace quire {
namespace {

std::string scratch_path(const DirectPattern& pattern) {
    return pattern.dir + "/quire-direct-scratch";
}

// Runs a program without a shell and returns what it printed.
Result<std::string> run_program(std::vector<std::string> words) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return errno_error("pipe", errno);
    Fd from(ends[0]), to(ends[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, to.get(), STDOUT_FILENO);
    std::vector<char*> args;
    for (std::string& word : words) args.push_back(word.data());
    args.push_back(nullptr);
    pid_t pid = 0;
    int error = ::posix_spawnp(&pid, args[0], &actions, nullptr, args.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return errno_error("start " + words[0], error);
    to.reset();
    std::string output;
    char chunk[4096];
    while (true) {
        ssize_t n = ::read(from.get(), chunk, sizeof(chunk));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        output.append(chunk, static_cast<size_t>(n));
    }
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        return make_error(Code::io, words[0] + " failed: " + output.substr(0, 400));
    }
    return output;
}

// Reads or writes one file front to back with `depth` requests in flight.
class DirectLoop {
 public:
    DirectLoop(const DirectPattern& pattern, IoOp op, int fd, std::span<std::byte> buffer,
               IoEngine& io)
        : pattern_(pattern), op_(op), fd_(fd), buffer_(buffer), io_(io) {}

    Result<double> run() {
        const int64_t start = system_clock().monotonic_ns();
        {
            std::unique_lock lock(mutex_);
            for (uint32_t i = 0; i < pattern_.depth; i++) issue(i);
            idle_.wait(lock, [&] { return in_flight_ == 0; });
        }
        const auto ns = static_cast<double>(system_clock().monotonic_ns() - start);
        if (!status_.ok()) return status_.error();
        return static_cast<double>(pattern_.file_bytes) * 1e9 / ns;
    }

 private:
    // With the mutex held.
    void issue(uint64_t slot) {
        if (next_ >= pattern_.file_bytes || !status_.ok()) return;
        IoRequest request;
        request.op = op_;
        request.fd = fd_;
        request.offset = next_;
        request.one = {buffer_.data() + slot * pattern_.io_bytes, pattern_.io_bytes};
        request.tag = slot;
        next_ += pattern_.io_bytes;
        in_flight_++;
        Status accepted =
            io_.submit(std::span(&request, 1),
                       [this](uint64_t tag, const Result<size_t>& result) { finish(tag, result); });
        if (!accepted.ok()) {
            in_flight_--;
            status_ = accepted;
        }
    }

    void finish(uint64_t slot, const Result<size_t>& result) {
        std::lock_guard lock(mutex_);
        in_flight_--;
        if (!result.ok()) {
            status_ = result.error();
        } else if (*result != pattern_.io_bytes) {
            status_ = make_error(Code::io, "the scratch file ended early");
        }
        issue(slot);
        if (in_flight_ == 0) idle_.notify_all();
    }

    const DirectPattern& pattern_;
    IoOp op_;
    int fd_;
    std::span<std::byte> buffer_;
    IoEngine& io_;
    std::mutex mutex_;
    std::condition_variable idle_;
    uint64_t next_ = 0;
    uint64_t in_flight_ = 0;
    Status status_;
};

}  // namespace

bool have_fio() {
    return run_program({"fio", "--version"}).ok();
}

Result<double> run_fio(const DirectPattern& pattern, bool write) {
    auto output = run_program(
        {"fio", "--name=quire", "--filename=" + scratch_path(pattern),
         std::string("--rw=") + (write ? "write" : "read"),
         "--bs=" + std::to_string(pattern.io_bytes), "--size=" + std::to_string(pattern.file_bytes),
         "--iodepth=" + std::to_string(pattern.depth), "--direct=1", "--ioengine=io_uring",
         "--refill_buffers=0", "--output-format=json"});
    if (!output.ok()) return output.error();
    // The one job's "read" and "write" objects each hold "bw_bytes".
    size_t at = output->find(write ? "\"write\" :" : "\"read\" :");
    if (at != std::string::npos) at = output->find("\"bw_bytes\" :", at);
    if (at == std::string::npos) return make_error(Code::io, "fio printed no bandwidth");
    double rate = std::strtod(output->c_str() + at + std::strlen("\"bw_bytes\" :"), nullptr);
    if (!(rate > 0)) return make_error(Code::io, "fio measured nothing");
    return rate;
}

Result<double> run_direct_loop(const DirectPattern& pattern, bool write, IoEngine& io) {
    int flags = O_CLOEXEC | O_DIRECT | (write ? O_RDWR | O_CREAT | O_TRUNC : O_RDONLY);
    const std::string path = scratch_path(pattern);
    Fd fd(::open(path.c_str(), flags, 0644));
    if (!fd.valid()) return errno_error("open " + path, errno);
    if (write && ::fallocate(fd.get(), 0, 0, static_cast<off_t>(pattern.file_bytes)) != 0 &&
        errno != EOPNOTSUPP) {
        return errno_error("reserve " + path, errno);
    }
    auto arena = Arena::create({.bytes = pattern.depth * pattern.io_bytes, .prefault = true});
    if (!arena.ok()) return arena.error();
    // Not zeros, which some devices treat specially.
    for (size_t i = 0; i < arena->size(); i += 8) {
        uint64_t x = i * 0x9E3779B97F4A7C15ull;
        std::memcpy(arena->data() + i, &x, 8);
    }
    return DirectLoop(pattern, write ? IoOp::write : IoOp::read, fd.get(), arena->bytes(), io)
        .run();
}

void remove_scratch(const DirectPattern& pattern) {
    std::error_code ignored;
    std::filesystem::remove(scratch_path(pattern), ignored);
}

Result<DirectReadReference> DirectReadReference::create(DirectPattern pattern, IoEngine& io) {
    pattern.io_bytes = std::max<uint64_t>(pattern.io_bytes / kDiskUnitBytes, 1) * kDiskUnitBytes;
    pattern.file_bytes =
        (pattern.file_bytes + pattern.io_bytes - 1) / pattern.io_bytes * pattern.io_bytes;
    DirectReadReference reference(std::move(pattern), io);
    auto written = run_direct_loop(reference.pattern_, true, io);
    if (!written.ok()) return written.error();
    return reference;
}

DirectReadReference::DirectReadReference(DirectReadReference&& other) noexcept
    : pattern_(std::move(other.pattern_)), io_(other.io_), owner_(other.owner_) {
    other.owner_ = false;
}

DirectReadReference::~DirectReadReference() {
    if (owner_) remove_scratch(pattern_);
}

Result<double> DirectReadReference::read_once() {
    return run_direct_loop(pattern_, false, *io_);
}

}  // namespace quire
