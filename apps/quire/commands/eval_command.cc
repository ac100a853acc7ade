// quire eval MODEL: what each way to code the cache does to the model's answers.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/quire/commands/command_line.h"
#include "apps/quire/commands/commands.h"
#include "apps/quire/commands/eval_measures.h"
#include "apps/quire/commands/eval_report.h"
#include "apps/quire/commands/eval_tokens.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/progress.h"
#include "bench/eval/ec_candidate.h"
#include "bench/eval/eval_bars.h"
#include "bench/eval/schedule.h"
#include "bench/eval/served.h"
#include "bench/eval/skipping.h"
#include "bench/places.h"
#include "codec/ec/ec.h"
#include "engine/model/vocab.h"

namespace quire::commands {
namespace {

constexpr std::string_view kFooter = R"(
The text goes through the model side by side, with an exact 16-bit cache and with each coded one;
KL is the divergence of the next token's distribution, in nats. The first --sink-tokens and the
newest --tail-tokens, in whole spans of 64, stay exact for every row: "with sinks, tail" counts
their bits too. "First other token" is the first judged position whose most likely token differs.
Means of keys and values are learned from other text, or come from --sidecar, a file of
`quire calibrate`; its schedule is then judged as "sidecar". The row bf16 is what 16 bits leave
open: the exact cache's f16 numbers rounded to bf16.

A second table has, for the same rows and by the same rules,
  attention  the error of each layer's attention output, root mean square over the judged half,
             relative to the 16-bit cache's: the mean over layers, the worst, and which that is
             (--json has all); earlier layers' errors are in it
  greedy     the number of the first token, from 0, at which a greedy continuation leaves the
             16-bit cache's: the median and the earliest of --greedy prompts cut from the text
  keys       pass keys, one to a text, planted at even depths and asked for at the end: those that
             the greedy answer gives exactly, and how many the 16-bit cache gives

Caches: every codec of `quire codec list`, with the keys' mean before RoPE removed, or the one after
RoPE (NAME:post), or no mean (NAME:plain); others' formats, which are peers by their bare names,
too (nvfp4_4over6:mean has the one before RoPE removed); with a sidecar ec:BITS, the cold codec at
about so many bits a number, 0.5 to 8 (a ladder of them when none is named), or ec:BITS+BITS, in a
base and a refinement. NAME:served is what `quire serve --kv-codec NAME --kv-sidecar FILE` does, by
its own code: its sinks (64, or --sink-tokens) and its open block exact, keys' four strongest pairs
turned, no means without --sidecar; NAME may be schedule. NAME+ec:BITS is the same with every block
packed and unpacked once, as by --kv-codec-cold ec:BITS. And peers:
)";

constexpr const char* kDefaults[] = {"fp8_e4m3_token:plain",
                                     "fp8_e4m3_token",
                                     "k8v8",
                                     "k7v6",
                                     "k6v6",
                                     "k6v4",
                                     "k5v4",
                                     "k4v4",
                                     "k4v3",
                                     "k3v3",
                                     "k3v2",
                                     "k2v2",
                                     "tq2.5",
                                     "i2c",
                                     "k8v8:post",
                                     "k4v4:post",
                                     "k4v4:plain"};
// With a sidecar that has ec's section.
constexpr const char* kColdDefaults[] = {"ec:4",   "ec:3.2", "ec:2.6", "ec:2.1",
                                         "ec:1.7", "ec:1.3", "ec:1",   "ec:0.7"};

struct EvalFlags {
    std::string model;
    TextFlags text;
    std::string svg;
    std::vector<std::string> caches;
    std::vector<uint32_t> skip_layers;
    std::vector<double> schedules;
    std::string schedule_file;
    std::string sidecar;
    std::string save_schedule;
    bool json = false;
    MeasureFlags measures;
    bool sinks_given = false;
    bench::EvalOptions options;
};

bool is_ec(const std::string& name) {
    return bench::ec_bits(name).has_value();
}

bool is_served(const std::string& name) {
    return bench::served_name(name).has_value();
}

// All but those of ec and what is served, which need the model.
Result<std::vector<std::unique_ptr<bench::Candidate>>> find_candidates(const EvalFlags& flags) {
    std::vector<std::string> names = flags.caches;
    const bool all = names.empty();
    std::erase_if(names, [](const auto& name) { return is_ec(name) || is_served(name); });
    if (all) {
        names.assign(std::begin(kDefaults), std::end(kDefaults));
        for (const std::string& peer : bench::peer_names()) names.push_back(peer);
    }
    std::vector<std::unique_ptr<bench::Candidate>> candidates;
    if (!flags.measures.no_noise_floor) candidates.push_back(bench::noise_floor_candidate());
    for (const std::string& name : names) {
        if (auto peer = bench::peer_candidate(name)) {
            candidates.push_back(std::move(peer));
            continue;
        }
        auto ours = bench::codec_candidate(name);
        if (!ours.ok()) {
            std::string message = ours.error().message + ", ec:BITS; peers:";
            for (const std::string& peer : bench::peer_names()) message += " " + peer;
            if (name == "sidecar")
                message = "--caches: --sidecar FILE adds its row 'sidecar' by itself";
            if (name.starts_with("auto:"))
                message = "--caches: --schedule " + name.substr(5) + " adds the row '" + name + "'";
            return make_error(ours.error().code, message);
        }
        candidates.push_back(flags.skip_layers.empty()
                                 ? std::move(ours).value()
                                 : bench::skipping_candidate(std::move(ours).value(),
                                                             flags.skip_layers));
    }
    return candidates;
}

std::vector<std::string> ec_names(const EvalFlags& flags) {
    std::vector<std::string> names;
    if (flags.caches.empty() && flags.options.sidecar != nullptr &&
        codec::find_section(*flags.options.sidecar, codec::ec::kTag) != nullptr)
        names.assign(std::begin(kColdDefaults), std::end(kColdDefaults));
    std::ranges::copy_if(flags.caches, std::back_inserter(names), is_ec);
    return names;
}

// Those of ec, and what is served.
Status add_of_model(const EvalFlags& flags, const GgufModel& model,
                    std::vector<std::unique_ptr<bench::Candidate>>* candidates) {
    const codec::Sidecar* sidecar = flags.options.sidecar;
    if (const std::vector<std::string> ec = ec_names(flags); !ec.empty()) {
        if (sidecar == nullptr)
            return make_error(Code::invalid,
                              ec.front() + " needs --sidecar FILE, from `quire calibrate MODEL`");
        auto added = bench::ec_candidates(model, *sidecar, ec, flags.skip_layers);
        if (!added.ok()) return added.error();
        for (auto& one : *added) candidates->push_back(std::move(one));
    }
    for (const std::string& name : flags.caches) {
        if (!is_served(name)) continue;
        bench::ServedOptions options{.sidecar = sidecar, .skip_layers = flags.skip_layers};
        if (flags.sinks_given) options.sink_tokens = flags.options.exact.sinks;
        auto served = bench::served_candidate(model, name, options);
        if (!served.ok()) return served.error();
        candidates->push_back(std::move(served).value());
    }
    return {};
}

bool knows_sensitivity(const EvalFlags& flags) {
    return flags.options.sidecar != nullptr && !flags.options.sidecar->sensitivity.empty();
}

// What candidates take from the sidecar. Those that need the model. Schedules for the wanted bits,
// from the sidecar's sensitivity or one that is measured on the calibration text; the last one is
// saved. Then the one from a file, and the sidecar's own.
Status add_candidates(const EvalFlags& flags, const GgufModel& model,
                      std::vector<std::unique_ptr<bench::Candidate>>* candidates) {
    const auto layers = static_cast<size_t>(model.hparams().n_layers);
    const auto head_dim = static_cast<uint32_t>(model.hparams().head_dim);
    for (const auto& candidate : *candidates)
        if (flags.options.sidecar != nullptr) QUIRE_TRY(candidate->use(*flags.options.sidecar));
    QUIRE_TRY(add_of_model(flags, model, candidates));
    if (flags.options.sidecar != nullptr && !flags.options.sidecar->bits.empty()) {
        bench::Schedule schedule = bench::Schedule::of(*flags.options.sidecar);
        schedule.skip_layers = flags.skip_layers;
        candidates->push_back(bench::scheduled_candidate("sidecar", std::move(schedule)));
    }
    if (!flags.schedules.empty()) {
        auto sensitivity = knows_sensitivity(flags)
                               ? bench::Sensitivity::of(*flags.options.sidecar)
                               : bench::measure_sensitivity(model, flags.options);
        if (!sensitivity.ok()) return sensitivity.error();
        for (const double bits : flags.schedules) {
            const bench::Schedule schedule = bench::allocate_joined(
                *sensitivity, bits, head_dim, model.kv_layout(16), flags.skip_layers);
            candidates->push_back(bench::scheduled_candidate(bench::schedule_name(bits), schedule));
            if (flags.save_schedule.empty()) continue;
            std::ofstream out(flags.save_schedule);
            out << schedule_yaml(schedule.by_layer());
            if (!out.flush())
                return make_error(Code::io, "cannot write the schedule " + flags.save_schedule);
        }
    }
    if (flags.schedule_file.empty()) return {};
    auto schedule = read_schedule(flags.schedule_file, layers);
    if (!schedule.ok()) return schedule.error();
    std::vector<uint32_t> skipped;
    std::ranges::set_union(schedule->skip_layers, flags.skip_layers, std::back_inserter(skipped));
    schedule->skip_layers = std::move(skipped);
    candidates->push_back(
        bench::scheduled_candidate(flags.schedule_file, bench::Schedule::of(*schedule)));
    return {};
}

// Caches that the model's rows do not fit: an error when they were asked for, otherwise left out.
Status keep_fitting(const EvalFlags& flags, const GgufModel& model,
                    std::vector<std::unique_ptr<bench::Candidate>>* candidates) {
    const auto head_dim = static_cast<uint32_t>(model.hparams().head_dim);
    for (const auto& candidate : *candidates) {
        const Status fits = candidate->fits(head_dim);
        if (fits.ok()) continue;
        if (!flags.caches.empty()) return fits;
        std::cerr << "left out: " << fits.error().message << std::endl;
    }
    std::erase_if(*candidates, [&](const auto& one) { return !one->fits(head_dim).ok(); });
    return {};
}

uint64_t tokens_to_compute(const EvalFlags& flags, const GgufModel& model, size_t candidates,
                           const Measures& measures) {
    candidates += ec_names(flags).size() +
                  static_cast<size_t>(std::ranges::count_if(flags.caches, is_served)) +
                  flags.schedules.size() + !flags.schedule_file.empty() +
                  (flags.options.sidecar != nullptr && !flags.options.sidecar->bits.empty());
    uint64_t tokens = bench::means_tokens(flags.options) +
                      bench::judged_tokens(candidates, flags.options) + measures.tokens(candidates);
    if (!flags.schedules.empty() && !knows_sensitivity(flags))
        tokens += bench::sensitivity_tokens(model, flags.options);
    return tokens;
}

Status check_skipped(const std::vector<uint32_t>& layers, const GgufModel& model) {
    const auto of_model = static_cast<uint32_t>(model.hparams().n_layers);
    for (const uint32_t layer : layers)
        if (layer >= of_model)
            return make_error(Code::invalid, fmt::format("--skip-layers: there is no layer {}; "
                                                         "this model has {}, from 0 on",
                                                         layer, of_model));
    if (layers.size() == of_model)
        return make_error(Code::invalid, "--skip-layers: no layer is left to be coded");
    return {};
}

// Everything that takes long.
Status judge(EvalFlags flags, const GgufModel& model, const Vocab& vocab,
             const std::vector<TokenId>& text,
             std::vector<std::unique_ptr<bench::Candidate>>* candidates, EvalReport* report) {
    QUIRE_TRY(bench::check_text(model, text, flags.options));
    std::optional<Progress> progress;
    uint64_t done = 0;
    flags.options.computed = [&](uint64_t tokens) { progress->update(done += tokens); };
    const auto measures = plan_measures(flags.measures, text, vocab, model, flags.options);
    if (!measures.ok()) return measures.error();
    progress.emplace("tokens through the model",
                     tokens_to_compute(flags, model, candidates->size(), *measures));
    QUIRE_TRY(add_candidates(flags, model, candidates));
    QUIRE_TRY(measure(model, text, *candidates, flags.options, *measures, report));
    progress->finish();
    return {};
}

int run(EvalFlags flags) {
    auto models = bench::find_models({flags.model});
    if (!models.ok()) return fail("eval", models.error().message);
    const bench::BenchModel& named = models->front();
    auto candidates = find_candidates(flags);
    if (!candidates.ok()) return fail("eval", candidates.error().message);
    auto vocab = Vocab::open(named.path);
    if (!vocab.ok()) return fail("eval", vocab.error().message);
    auto model = GgufModel::open(named.path);
    if (!model.ok()) return fail("eval", model.error().message);
    if (auto checked = check_skipped(flags.skip_layers, **model); !checked.ok())
        return fail("eval", checked.error().message);
    if (flags.options.threads == 0) flags.options.threads = machine_cores();
    if (auto kept = keep_fitting(flags, **model, &*candidates); !kept.ok())
        return fail("eval", kept.error().message);
    codec::ReadSidecar sidecar;
    if (!flags.sidecar.empty()) {
        auto read = codec::read_sidecar(flags.sidecar);
        if (!read.ok()) return fail("eval", read.error().message);
        sidecar = std::move(read).value();
        flags.options.sidecar = &sidecar.sidecar;
    }
    if (auto exact = bench::check_exact_tokens(flags.options.exact, flags.options.tokens);
        !exact.ok())
        return fail("eval", exact.error().message);
    const uint64_t seed = flags.measures.seed;
    auto text = find_tokens(flags.text, **vocab, **model, seed, &flags.options);
    if (!text.ok()) return fail("eval", text.error().message);
    EvalReport report{.model = named.name,
                      .text = text_source(flags.text, seed),
                      .tokens = flags.options.tokens,
                      .exact = flags.options.exact,
                      .rows = {},
                      .bars = {}};
    if (auto done = judge(flags, **model, **vocab, *text, &*candidates, &report); !done.ok())
        return fail("eval", done.error().message);
    report.bars = bench::eval_bars(named, report.rows);
    if (!flags.svg.empty()) {
        std::ofstream picture(flags.svg);
        picture << eval_svg(report);
        if (!picture.flush()) return fail("eval", "cannot write the picture " + flags.svg);
    }
    std::cout << (flags.json ? eval_json(report) : eval_text(report)) << std::flush;
    return bench::all_ok(report.bars) ? kExitOk : kExitNotOk;
}

}  // namespace

int run_eval(int argc, const char* const* argv) {
    CLI::App app(
        "Judges codecs of the cache on a model: divergence, top-1, perplexity at equal bits.",
        "quire eval");
    EvalFlags flags;
    flags.options.threads = 0;
    app.add_option("MODEL", flags.model, "a GGUF file")->required();
    app.add_option("--caches", flags.caches,
                   "names, separated by commas; none: a ladder and all peers")
        ->delimiter(',');
    app.add_option("--skip-layers", flags.skip_layers,
                   "by number from 0: they stay 16 bit in every cache that is ours, schedules too")
        ->delimiter(',');
    auto* schedule = app.add_option("--schedule", flags.schedules,
                   "bits a number: add the best widths per layer for them, from measured "
                   "sensitivity; with neither this nor --caches, a ladder of them")
        ->delimiter(',')
        ->check(CLI::Range(2.1, 8.5));
    app.add_option("--save-schedule", flags.save_schedule, "write the last --schedule as YAML")
        ->needs(schedule);
    app.add_option("--schedule-file", flags.schedule_file,
                   "add the schedule of this YAML file, as the report prints it");
    app.add_option("--sidecar", flags.sidecar,
                   "a file of `quire calibrate`: its means, sensitivity and schedule");
    add_text_flags(&app, &flags.text);
    app.add_option("--threads", flags.options.threads, "that compute; 0: every core")
        ->check(CLI::Range(0, 512));
    const auto* sinks = app.add_option(
        "--sink-tokens", flags.options.exact.sinks,
        "first tokens that stay 16 bit, for every cache; a multiple of 16 (16; what is served: "
        "64)");
    app.add_option("--tail-tokens", flags.options.exact.tail,
                   "newest tokens that stay 16 bit, the span at hand included, for every cache; a "
                   "multiple of 64 (64)");
    add_measure_flags(&app, &flags.measures);
    app.add_option("--svg", flags.svg, "write a picture, divergence over bits");
    app.add_flag("--json", flags.json, "print one JSON object");
    std::string peers;
    for (const std::string& name : bench::peer_names()) peers += "  " + name;
    app.footer(std::string(kFooter) + peers + "\n");
    if (auto code = parse_flags(app, argc, argv)) return *code;
    log::configure({.level = log::Level::error});
    flags.options.tokens = wanted_tokens(flags.text);
    flags.sinks_given = sinks->count() > 0;
    std::ranges::sort(flags.skip_layers);
    flags.skip_layers.erase(std::ranges::unique(flags.skip_layers).begin(),
                            flags.skip_layers.end());
    flags.options.layer_errors = !flags.measures.no_layer_errors;
    if (flags.caches.empty() && flags.schedules.empty()) flags.schedules = bench::eval_bar_bits();
    return run(std::move(flags));
}

}  // namespace quire::commands
