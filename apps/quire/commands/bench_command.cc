// quire bench NAME [MODEL...] [--json] ...
#include <algorithm>
#include <iostream>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/quire/commands/command_line.h"
#include "apps/quire/commands/commands.h"
#include "base/log.h"
#include "base/machine.h"
#include "bench/bench.h"
#include "bench/places.h"
#include "bench/report.h"

namespace quire::commands {
namespace {

std::string list_of_benches() {
    std::string text = "Benches:\n";
    for (const bench::BenchCase& row : bench::bench_table())
        text += fmt::format("  {:<10} {}\n", row.name, row.about);
    return text;
}

struct BenchFlags {
    std::string name;
    std::vector<std::string> models;
    std::string isa = "auto";
    bool json = false;
    bench::BenchOptions options;
};

void add_flags(CLI::App& app, BenchFlags& flags) {
    bench::BenchOptions& o = flags.options;
    app.add_option("NAME", flags.name, "which bench")->required();
    app.add_option("MODEL", flags.models, "GGUF files; none: both models of tools/models");
    app.add_flag("--json", flags.json, "print one JSON object");
    app.add_option("--threads", o.threads, "that compute; 0: every core")
        ->check(CLI::Range(0, 512));
    app.add_option("--repeats", o.repeats, "of each thing measured; medians are reported")
        ->check(CLI::Range(1, 1000));
    app.add_flag("--quick", o.quick, "few and small: does it run at all; bars mean little");
    app.add_option("--dir", o.scratch_dir, "scratch folder, on the disk to measure");
    app.add_option("--kv-codec", o.kv_codec, "of our engine's KV pages; none: 16 bit");
    app.add_option("--llama-bench", o.llama_bench,
                   "engine: llama-bench, with llama-batched-bench beside it");
    app.add_option("--only", o.only, "engine: rows with this in their name, such as 'depth 4096'");
    app.add_option("--isa", flags.isa,
                   "of our kernels; a peer compiled for less is named with --llama-bench")
        ->check(CLI::IsMember({"auto", "avx2", "avx512"}));
    app.add_option("--trace", o.trace, "policy: a trace in the Mooncake project's format");
    app.add_option("--minutes", o.minutes, "memory: how long; 0: by --requests")
        ->check(CLI::Range(0, 10'000));
    app.add_option("--requests", o.requests, "memory: how many")
        ->check(CLI::Range(uint64_t{100}, uint64_t{1} << 40));
    app.footer(
        list_of_benches() +
        "\nA ratio is the median over runs side by side, which is not always that of the two "
        "medians beside it.\n");
}

const kernels::AttentionOps* find_isa(const std::string& name) {
    if (name == "avx2") return kernels::find_attention(kernels::Isa::avx2);
    if (name == "avx512") return kernels::find_attention(kernels::Isa::avx512);
    return &kernels::best_attention();
}

}  // namespace

int run_bench(int argc, const char* const* argv) {
    CLI::App app(
        "Measures Quire beside what the machine can do or what a user would pick instead, "
        "and ends in a table of bars. Exit code 1: a bar was missed.",
        "quire bench");
    BenchFlags flags;
    add_flags(app, flags);
    if (auto code = parse_flags(app, argc, argv)) return *code;
    log::configure({.level = log::Level::error});

    const bench::BenchCase* found = bench::find_bench(flags.name);
    if (found == nullptr)
        return fail("bench",
                    fmt::format("there is no bench '{}'\n{}", flags.name, list_of_benches()));
    bench::BenchOptions& options = flags.options;
    if (found->needs_models) {
        auto models = bench::find_models(flags.models);
        if (!models.ok()) return fail("bench", models.error().message);
        options.models = std::move(models).value();
    } else if (!flags.models.empty()) {
        return fail("bench", fmt::format("'{}' takes no model", found->name));
    }
    options.attention = find_isa(flags.isa);
    if (options.attention == nullptr)
        return fail("bench", "this CPU lacks the instructions that --isa names; use --isa auto");
    if (options.threads == 0) options.threads = machine_cores();
    if (options.quick) options.repeats = std::min(options.repeats, 2u);
    if (!options.scratch_dir.empty()) {
        const Status dir = bench::check_scratch_dir(options.scratch_dir);
        if (!dir.ok()) return fail("bench", dir.error().message);
    }
    if (options.scratch_dir.empty()) options.scratch_dir = bench::cache_folder() + "/bench";
    options.say = [](std::string_view line) { std::cerr << line << std::endl; };

    auto rows = found->run(options);
    if (!rows.ok()) return fail(fmt::format("bench {}", found->name), rows.error().message);
    const bench::BenchReport report{
        std::string(found->name),
        bench::describe_machine(options.scratch_dir, options.threads, *options.attention),
        std::move(rows).value()};
    std::cout << (flags.json ? report_json(report) : report_text(report)) << std::flush;
    if (options.quick) std::cerr << "--quick: few and small, bars mean little\n";
    return all_ok(report.rows) ? kExitOk : kExitNotOk;
}

}  // namespace quire::commands
