// quire inspect DIR [--verify] [--repair] [--json]
#include <iostream>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/quire/commands/command_line.h"
#include "apps/quire/commands/commands.h"
#include "apps/quire/commands/inspect_report.h"
#include "base/log.h"
#include "base/progress.h"

namespace quire::commands {

int run_inspect(int argc, const char* const* argv) {
    CLI::App app(
        "Looks at a disk cache directory without changing it (but for --repair): segments, blocks, "
        "models, "
        "tenants, codecs, damage. Exit code 1: damage was found.",
        "quire inspect");
    InspectResult result;
    bool json = false, repair = false;
    app.add_option("DIR", result.dir, "the directory given to quire serve --disk")->required();
    app.add_flag("--verify", result.verified, "read and check every byte, not only headers");
    app.add_flag("--repair", repair, "first write the index anew from the slabs themselves");
    app.add_flag("--json", json, "print one JSON object");
    if (auto code = parse_flags(app, argc, argv)) return *code;
    log::configure({.level = log::Level::warn});

    if (repair) {
        auto found = rebuild_index(result.dir);
        if (!found.ok()) return fail("inspect", found.error().message);
        std::cerr << fmt::format("wrote the index anew: {} blocks\n", *found);
    }
    std::optional<Progress> bar;
    auto report = inspect_disk(result.dir, result.verified, [&](uint64_t done, uint64_t total) {
        if (!bar && total > 0) bar.emplace("blocks", total);
        if (bar) bar->update(done);
    });
    bar.reset();
    if (!report.ok()) {
        const bool busy = report.code() == Code::busy;
        return fail("inspect", report.error().message +
                                   (busy ? "; or ask the server that uses it: quire doctor --url, "
                                           "or GET /v1/cache"
                                         : ""));
    }
    result.report = std::move(report).value();
    std::cout << (json ? inspect_json(result) : inspect_text(result)) << std::flush;
    return result.damaged() ? kExitNotOk : kExitOk;
}

}  // namespace quire::commands
