// quire doctor [--url URL] [--api-key KEY] [--disk DIR] [--config FILE] [--prompt TEXT] [--json]
#include <algorithm>
#include <iostream>
#include <iterator>
#include <sstream>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "apps/quire/commands/command_line.h"
#include "apps/quire/commands/commands.h"
#include "apps/quire/commands/doctor/checks.h"
#include "base/log.h"
#include "base/options.h"
#include "base/regular_file.h"

namespace quire::commands {
namespace {

constexpr int64_t kServerWait_ns = int64_t{10} * 1'000'000'000;
constexpr uint64_t kPromptBytesMax = 16 << 20;

struct DoctorFlags {
    std::string url, api_key, disk, config, prompt, prompt_file;
    bool json = false;
};

void add_flags(CLI::App& app, DoctorFlags& flags) {
    app.add_option("--url", flags.url, "a running server: http://HOST:PORT");
    app.add_option("--api-key", flags.api_key, "its key, where it wants one");
    app.add_option("--disk", flags.disk, "a directory that is, or is to be, a disk cache");
    app.add_option("--config", flags.config, "a configuration file to check");
    auto* prompt = app.add_option("--prompt", flags.prompt, "with --url: why would it hit or miss");
    app.add_option("--prompt-file", flags.prompt_file, "the same, from a file")->excludes(prompt);
    app.add_flag("--json", flags.json, "print one JSON object");
}

Result<std::string> read_prompt(const DoctorFlags& flags) {
    if (flags.prompt_file.empty()) return flags.prompt;
    return read_regular_file(flags.prompt_file, "the prompt", kPromptBytesMax);
}

}  // namespace

int run_doctor(int argc, const char* const* argv) {
    CLI::App app(
        "Says whether this machine, a disk directory, a configuration and a running server "
        "are in order, and what to do where they are not. Exit code 1: something failed.",
        "quire doctor");
    DoctorFlags flags;
    add_flags(app, flags);
    if (auto code = parse_flags(app, argc, argv)) return *code;
    log::configure({.level = log::Level::error});
    auto prompt = read_prompt(flags);
    if (!prompt.ok()) return fail("doctor", prompt.error().message);

    doctor::Findings findings = doctor::check_machine();
    const auto add = [&](doctor::Findings more) {
        std::move(more.begin(), more.end(), std::back_inserter(findings));
    };
    add(doctor::check_config(flags.config, environ));
    if (!flags.disk.empty()) {
        auto disk = parse_disk_option(flags.disk);
        if (!disk.ok()) return fail("doctor", disk.error().message);
        add(doctor::check_disk(disk->path));
    }
    if (!flags.url.empty()) {
        auto url = server::parse_url(flags.url);
        if (!url.ok()) return fail("doctor", url.error().message);
        server::HttpClient client(*url, flags.api_key, kServerWait_ns);
        add(doctor::check_server(client, *prompt));
    } else if (!prompt->empty()) {
        return fail("doctor", "--prompt needs --url: a server explains it");
    }
    std::cout << (flags.json ? doctor::findings_json(findings) : doctor::findings_text(findings))
              << std::flush;
    return doctor::worst(findings) == doctor::Verdict::fail ? kExitNotOk : kExitOk;
}

}  // namespace quire::commands
