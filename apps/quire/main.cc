// quire: one binary, a subcommand a row. `quire help` and `quire --help` list them.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <span>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "apps/quire/chat/chat_command.h"
#include "apps/quire/commands/commands.h"
#include "apps/quire/serve/serve_command.h"

namespace {

struct Subcommand {
    std::string_view name;
    std::string_view summary;
    int (*run)(int argc, const char* const* argv);  // argv[0] is the subcommand's name
};

constexpr Subcommand kSubcommands[] = {
    {"serve", "answer OpenAI requests from a GGUF model, with a cache that outlives the process",
     quire::run_serve},
    {"chat", "talk to a model, here or on a running server", quire::run_chat},
    {"bench", "measure beside the machine's ceilings and other engines",
     quire::commands::run_bench},
    {"codec", "list, measure and check the codecs of KV pages", quire::commands::run_codec},
    {"calibrate", "learn from text what a model's codecs need to be good",
     quire::commands::run_calibrate},
    {"eval", "judge what coding the cache does to a model's answers", quire::commands::run_eval},
    {"inspect", "look into a disk cache: segments, blocks, models, damage",
     quire::commands::run_inspect},
    {"doctor", "check the machine and a server, and say why recent prompts missed",
     quire::commands::run_doctor},
};

constexpr std::string_view kExamples = R"(
Start here:
  quire serve MODEL.gguf                  then point any OpenAI client at http://127.0.0.1:8000/v1
  quire serve MODEL.gguf --disk ~/kv      keep the cache over restarts
  quire chat MODEL.gguf                   talk to it in this terminal

`quire SUBCOMMAND --help` tells more.
)";

void print_help(std::ostream& out) {
    out << "Usage: quire SUBCOMMAND ...\n\nA server for language models whose KV cache is kept, "
           "shared and found again.\n\nSubcommands:\n";
    for (const Subcommand& row : kSubcommands) {
        out << "  " << row.name << std::string(11 - row.name.size(), ' ') << row.summary << "\n";
    }
    out << kExamples;
}

constexpr int kExitFailed = 1;

int run(const Subcommand& row, int argc, char** argv) {
    try {
        return row.run(argc, argv);
    } catch (const std::bad_alloc&) {
        std::cerr << "quire " << row.name << ": out of memory; raise the limit (ulimit -v)\n";
    } catch (const std::exception& e) {
        std::cerr << "quire " << row.name << ": " << e.what() << "\n";
    }
    return kExitFailed;
}

// The subcommand's name as the process was started with, without allocating; "": none.
const char* own_subcommand(std::span<char> room) {
    const int file = ::open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    const ssize_t n = file < 0 ? 0 : ::read(file, room.data(), room.size() - 1);
    if (file >= 0) ::close(file);
    room[static_cast<size_t>(std::max<ssize_t>(n, 0))] = 0;
    const size_t program = ::strnlen(room.data(), room.size() - 1);
    return program + 1 < room.size() && n > 0 ? room.data() + program + 1 : "";
}

// For what a thread other than main's throws: one line, and no core file for a full machine.
[[noreturn]] void end_with_a_line() {
    const char* why = "it cannot go on";
    try {
        if (std::current_exception()) std::rethrow_exception(std::current_exception());
    } catch (const std::bad_alloc&) {
        why = "out of memory; raise the limit (ulimit -v)";
    } catch (...) {
        why = "the machine gives no more threads or memory; raise its limits (ulimit -u, -v)";
    }
    char room[512] = {};
    std::fprintf(stderr, "quire %s: %s\n", own_subcommand(room), why);
    ::_exit(kExitFailed);
}

}  // namespace

int main(int argc, char** argv) {
    std::set_terminate(end_with_a_line);
    // A write past the limit on file sizes (ulimit -f) fails as one to a full disk does.
    std::signal(SIGXFSZ, SIG_IGN);
    const std::span<char*> arguments(argv, static_cast<size_t>(argc));
    const std::string_view name = arguments.size() > 1 ? arguments[1] : "";
    for (const Subcommand& row : kSubcommands) {
        if (row.name == name) return run(row, argc - 1, argv + 1);
    }
    if (name == "--help" || name == "-h" || name == "help") {
        print_help(std::cout);
        return 0;
    }
    if (name == "--version" || name == "version") {
        std::cout << "quire " << QUIRE_VERSION << "\n";
        return 0;
    }
    if (!name.empty()) std::cerr << "quire: there is no subcommand '" << name << "'\n\n";
    print_help(std::cerr);
    return 2;
}
