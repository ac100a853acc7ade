#include "bench/subprocess.h"

#include <cerrno>
#include <csignal>
#include <system_error>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

extern char** environ;

namespace quire::bench {
namespace {

constexpr size_t kOutputBytesMax = 16 << 20;

Error failed(const std::string& program, const std::string& what, int code) {
    return make_error(Code::io,
                      program + ": " + what + ": " + std::generic_category().message(code), code);
}

// A child that is waited for on every path.
class Child {
 public:
    Child(pid_t pid, int output) : pid_(pid), output_(output) {}
    ~Child() {
        ::close(output_);
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            (void)wait();
        }
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    int output() const { return output_; }
    // The exit status, -1 for a signal.
    int wait() {
        int status = 0;
        while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
        }
        pid_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }

 private:
    pid_t pid_;
    int output_;
};

Result<std::string> read_all(Child& child, const std::string& program, int64_t timeout_ns) {
    const int64_t give_up_ns = system_clock().monotonic_ns() + timeout_ns;
    std::string output;
    for (;;) {
        const int64_t left_ms = (give_up_ns - system_clock().monotonic_ns()) / 1'000'000;
        pollfd ready{child.output(), POLLIN, 0};
        const int polled = left_ms > 0 ? ::poll(&ready, 1, static_cast<int>(left_ms)) : 0;
        if (polled < 0 && errno == EINTR) continue;
        if (polled <= 0)
            return make_error(Code::timeout, program + " did not end in time and was killed");
        char chunk[4096];
        const ssize_t n = ::read(child.output(), chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return output;
        output.append(chunk, static_cast<size_t>(n));
        if (output.size() > kOutputBytesMax)
            return make_error(Code::io, program + " printed more than 16 MiB");
    }
}

}  // namespace

Result<std::string> run_program(const std::vector<std::string>& words, int64_t timeout_ns) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return failed(words[0], "pipe", errno);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::vector<std::string> copies = words;
    std::vector<char*> arguments;
    for (std::string& word : copies) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_t pid = 0;
    const int error =
        ::posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (error != 0) {
        ::close(ends[0]);
        return failed(words[0], "cannot be started", error);
    }
    Child child(pid, ends[0]);
    auto output = read_all(child, words[0], timeout_ns);
    if (!output.ok()) return output;
    if (const int status = child.wait(); status != 0)
        return make_error(Code::io, words[0] + " failed with exit status " +
                                        std::to_string(status) + ": " + output->substr(0, 400));
    return output;
}

}  // namespace quire::bench
