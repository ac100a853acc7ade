// quire codec list|bench|verify|transcode
#include <iostream>
#include <iterator>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/quire/commands/codec_report.h"
#include "apps/quire/commands/codec_verify.h"
#include "apps/quire/commands/command_line.h"
#include "apps/quire/commands/commands.h"
#include "apps/quire/commands/transcode.h"
#include "base/log.h"

namespace quire::commands {
namespace {

constexpr std::string_view kFooter = R"(
A codec says how the K and V numbers of a page become bytes. Names:
  raw16                    16 bits, as the model's cache
  fp8_e4m3, fp8_e5m2       8-bit floats; _head: a given scale per head, _token: one per row
  nvfp4, nvfp4_4over6      4-bit floats in blocks of 16 with a scale each; mxfp4: of 32
  turboquant_k8v4, ...     vLLM's slots of that name: 4bit_nc, k3v4_nc, 3bit_nc
  tq4_mse, tq4_prod, ...   TurboQuant as its paper has it, to show its cost
  k{2..8}v{2..8}           the hot family: keys and values rotated, their mean removed, coded with
                           that many bits; k6v4 is 6 bits a key number and 4 a value number
  i8r, i6r, i4r, tq4, tq3  other names of k8v8, k6v6, k4v4, k4v4, k3v3
  i2c, i3c, i4c            as k2v2, k3v3, k4v4 after a matrix that `quire calibrate` learned
  tq2.5                    half of the dimensions as k3v3, half as k2v2

Examples:
  quire codec list --head-dim 64       families, with bits and bytes on such heads
  quire codec list --all               every codec by name
  quire codec bench k6v4 k4v3          their speed on one core, beside memcpy
  quire codec verify                   this CPU's fast versions against the oracles
  quire codec verify tests/golden/codec
                                       files of golden vectors, or folders of them, against this
                                       build: NAME.bin, ec.block, mla.rows
  quire codec transcode OLD NEW --to zstd
                                       a cache directory's blocks, packed otherwise
  quire codec transcode OLD NEW --to ec:2.7 --model M.gguf --kv-sidecar M.sidecar
)";

constexpr const char* kBenchDefaults[] = {
    "raw16", "fp8_e4m3", "fp8_e4m3_token", "k8v8", "k7v6", "k6v6", "k6v4",
    "k5v4",  "k4v4",     "k4v3",           "k3v3", "k3v2", "k2v2"};

struct Bar {
    std::string_view codec;
    double share;
};
constexpr Bar kBars[] = {{"k8v8", 0.1}, {"k4v4", 0.04}, {"k4v3", 0.04}};

struct CodecFlags {
    codec::Geometry geometry = {.head_dim = 128};
    std::vector<std::string> names;
    std::vector<std::string> files;
    uint32_t repeats = 5;
    bool quick = false;
    bool json = false;
    bool all = false;
};

// The named codecs, or all.
Result<std::vector<codec::CodecSpec>> find_codecs(const std::vector<std::string>& names) {
    std::vector<codec::CodecSpec> specs;
    for (const std::string& name : names) {
        auto spec = codec::find_codec(name);
        if (!spec.ok()) return spec.error();
        specs.push_back(*spec);
    }
    if (!names.empty()) return specs;
    for (const codec::CodecRow& row : codec::codec_table())
        specs.insert(specs.end(), row.specs().begin(), row.specs().end());
    return specs;
}

int list(const CodecFlags& flags) {
    if (flags.names.empty() && !flags.all && !flags.json) {
        std::cout << codec_families_text(flags.geometry) << std::flush;
        return kExitOk;
    }
    const auto specs = find_codecs(flags.names);
    if (!specs.ok()) return fail("codec list", specs.error().message);
    std::vector<CodecLine> lines;
    for (const codec::CodecSpec& spec : *specs) {
        const codec::Geometry g = codec::with_fitting_element(spec, flags.geometry);
        const char* reason = codec::row_of(spec).unsupported(spec, g);
        lines.push_back({spec, g, reason != nullptr ? reason : ""});
    }
    std::cout << (flags.json ? codec_list_json(lines) : codec_list_text(lines)) << std::flush;
    return kExitOk;
}

void judge(const bench::CodecSpeed& fastest, std::vector<bench::BarRow>& bars) {
    for (const Bar& bar : kBars)
        if (bar.codec == fastest.codec)
            bars.push_back(
                bench::paired_row(fmt::format("encode {} ({})", fastest.codec, fastest.isa), "GB/s",
                                  fastest.encode * 1e-9, fastest.copy * 1e-9, fastest.encode_share,
                                  bench::Comparison::at_least, bar.share));
}

int run_speed(CodecFlags flags) {
    if (flags.names.empty())
        flags.names.assign(std::begin(kBenchDefaults), std::end(kBenchDefaults));
    const auto specs = find_codecs(flags.names);
    if (!specs.ok()) return fail("codec bench", specs.error().message);
    CodecBenchResult result{.geometry = flags.geometry};
    for (const codec::CodecSpec& spec : *specs) {
        std::cerr << "measuring " << codec::codec_name(spec) << std::endl;
        const auto speeds = bench::measure_codec_isas(
            spec, {.geometry = codec::with_fitting_element(spec, flags.geometry),
                   .repeats = flags.repeats,
                   .quick = flags.quick});
        if (!speeds.ok()) return fail("codec bench", speeds.error().message);
        result.speeds.insert(result.speeds.end(), speeds->begin(), speeds->end());
        judge(speeds->back(), result.bars);
    }
    std::cout << (flags.json ? codec_bench_json(result) : codec_bench_text(result)) << std::flush;
    return bench::all_ok(result.bars) ? kExitOk : kExitNotOk;
}

int verify(const CodecFlags& flags) {
    auto checks = flags.files.empty() ? verify_this_cpu() : verify_files(flags.files);
    if (!checks.ok()) {
        std::cerr << "quire codec verify: " << checks.error().message << "\n";
        return checks.code() == Code::corrupt ? kExitNotOk : kExitError;
    }
    std::cout << (flags.json ? codec_verify_json(*checks) : codec_verify_text(*checks))
              << std::flush;
    const bool all_same =
        std::ranges::all_of(*checks, [](const CodecCheck& one) { return one.problem.empty(); });
    return all_same ? kExitOk : kExitNotOk;
}

int run_transcode(const TranscodeFlags& flags) {
    log::configure({.level = log::Level::error});
    const auto report = transcode(flags);
    if (!report.ok()) return fail("codec transcode", report.error().message);
    std::cout << (flags.json ? transcode_json(*report) : transcode_text(*report)) << std::flush;
    return report->refused == 0 ? kExitOk : kExitNotOk;
}

void add_transcode(CLI::App& app, TranscodeFlags& flags) {
    app.add_option("FROM", flags.from_dir, "a cache directory that no server has open")->required();
    app.add_option("TO", flags.to_dir,
                   "a new directory; it appears when all of it is written, under another name "
                   "until then: after a failure nothing is left, and what an interrupted run left "
                   "is deleted by the next")
        ->required();
    app.add_option("--to", flags.to, "packing: none, zstd, bx or ec:BITS")->capture_default_str();
    app.add_option("--from", flags.from, "ec:BITS, where FROM has blocks that are packed so")
        ->capture_default_str();
    app.add_option("--model", flags.model, "of ec and bx: the GGUF file whose blocks they are");
    app.add_option("--kv-codec", flags.kv_codec, "of ec: as the server that wrote FROM");
    app.add_option("--kv-sinks", flags.kv_sinks, "of ec: as that server")->capture_default_str();
    app.add_option("--kv-recent-tokens", flags.kv_recent_tokens, "of ec: as that server")
        ->capture_default_str();
    app.add_option("--kv-skip-layers", flags.kv_skip_layers, "of ec: as that server")
        ->delimiter(',');
    app.add_option("--kv-dtype", flags.kv_dtype, "of ec and bx: f16 or bf16, as that server")
        ->check(CLI::IsMember({"f16", "bf16"}))
        ->capture_default_str();
    app.add_option("--block-tokens", flags.block_tokens,
                   "of ec without a codec: as that server; 0: as most blocks of FROM")
        ->check(CLI::Range(0, 256))
        ->capture_default_str();
    app.add_option("--kv-schedule", flags.kv_schedule, "of ec: as that server");
    app.add_option("--kv-sidecar", flags.kv_sidecar, "of ec: a file of quire calibrate");
    app.add_flag("--json", flags.json, "print one JSON object");
}

void add_shape(CLI::App& app, CodecFlags& flags) {
    app.add_option("--head-dim", flags.geometry.head_dim, "numbers in a row")
        ->capture_default_str();
    app.add_option("--block-tokens", flags.geometry.block_tokens, "tokens in a page")
        ->capture_default_str();
}

}  // namespace

int run_codec(int argc, const char* const* argv) {
    CLI::App app(
        "Lists the codecs of KV pages, measures them, checks them, and packs cache directories "
        "otherwise. Exit code 1: a bar was missed, bytes differ, or blocks were left behind.",
        "quire codec");
    CodecFlags flags;
    app.require_subcommand(1);
    app.footer(std::string(kFooter));
    CLI::App& lister =
        *app.add_subcommand("list", "families of codecs with their bits, bytes and abilities");
    CLI::App& bencher = *app.add_subcommand("bench", "encode and decode on one core over memcpy");
    CLI::App& verifier = *app.add_subcommand(
        "verify", "fast versions against oracles, or files of golden vectors against this build");
    CLI::App& transcoder = *app.add_subcommand(
        "transcode", "a cache directory into another whose blocks are packed otherwise");
    TranscodeFlags transcoding;
    add_transcode(transcoder, transcoding);
    for (CLI::App* with_names : {&lister, &bencher}) {
        with_names->add_option("NAME", flags.names, "which codecs; none: all, or a selection");
        add_shape(*with_names, flags);
    }
    lister.footer(codec_list_legend());
    lister.add_flag("--all", flags.all, "a line for every codec, not for every family");
    bencher.add_option("--repeats", flags.repeats, "of each thing measured; medians are reported")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    bencher.add_flag("--quick", flags.quick, "few pages: does it run at all; bars mean little");
    verifier.add_option("PATH", flags.files,
                        "golden vectors, or folders of them; none: check this CPU by itself");
    for (CLI::App* any : {&lister, &bencher, &verifier})
        any->add_flag("--json", flags.json, "print one JSON object");
    if (auto code = parse_flags(app, argc, argv)) return *code;
    if (transcoder.parsed()) return run_transcode(transcoding);
    if (lister.parsed()) return list(flags);
    if (bencher.parsed()) return run_speed(flags);
    return verify(flags);
}

}  // namespace quire::commands
