// quire eval MODEL: what each way to code the cache does to the model's answers.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/quire/commands/command_line.h"
#include "apps/quire/commands/commands.h"
#include "apps/quire/commands/eval_candidates.h"
#include "apps/quire/commands/eval_plan.h"
#include "apps/quire/commands/eval_report.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/progress.h"
#include "bench/eval/eval_bars.h"
#include "bench/eval/schedule.h"
#include "bench/places.h"
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

// What will go through the model, and how often.
EvalPlan plan_of(const EvalFlags& flags, const GgufModel& model, size_t candidates,
                 const Measures& measures) {
    candidates += flags.schedules.size();
    EvalPlan plan{.tokens = flags.options.tokens, .caches = candidates};
    plan.judged = bench::judged_tokens(candidates, flags.options);
    plan.learning = bench::means_tokens(flags.options);
    if (!flags.schedules.empty() && !knows_sensitivity(flags))
        plan.learning += bench::sensitivity_tokens(model, flags.options);
    plan.measures = measures.tokens(candidates);
    return plan;
}

// Everything that takes long.
Status judge(EvalFlags flags, const GgufModel& model, const Vocab& vocab,
             const std::vector<TokenId>& text, Candidates* candidates, EvalReport* report) {
    QUIRE_TRY(bench::check_text(model, text, flags.options));
    std::optional<Progress> progress;
    uint64_t done = 0;
    flags.options.computed = [&](uint64_t tokens) { progress->update(done += tokens); };
    const auto measures = plan_measures(flags.measures, text, vocab, model, flags.options);
    if (!measures.ok()) return measures.error();
    EvalPlan plan = plan_of(flags, model, candidates->size(), *measures);
    plan.ns_a_token = time_a_token(model, text, flags.options.threads, plan.all());
    std::cerr << plan_text(plan) << std::flush;
    progress.emplace("tokens through the model", plan.all());
    QUIRE_TRY(add_schedules(flags, model, candidates));
    QUIRE_TRY(measure(model, text, *candidates, flags.options, *measures, report));
    progress->finish();
    return {};
}

int run(EvalFlags flags) {
    auto models = bench::find_models({flags.model});
    if (!models.ok()) return fail("eval", models.error().message);
    const bench::BenchModel& named = models->front();
    codec::ReadSidecar sidecar;
    auto candidates = find_candidates(flags, &sidecar);
    if (!candidates.ok()) return fail("eval", candidates.error().message);
    if (!flags.sidecar.empty()) flags.options.sidecar = &sidecar.sidecar;
    if (auto exact = bench::check_exact_tokens(flags.options.exact, flags.options.tokens);
        !exact.ok())
        return fail("eval", exact.error().message);
    auto vocab = Vocab::open(named.path);
    if (!vocab.ok()) return fail("eval", vocab.error().message);
    auto model = GgufModel::open(named.path);
    if (!model.ok()) return fail("eval", model.error().message);
    if (auto checked = check_skipped(flags.skip_layers, **model); !checked.ok())
        return fail("eval", checked.error().message);
    if (flags.options.threads == 0) flags.options.threads = machine_cores();
    if (auto added = add_of_model(flags, **model, &*candidates); !added.ok())
        return fail("eval", added.error().message);
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
    auto* schedule =
        app.add_option("--schedule", flags.schedules,
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
