// quire calibrate MODEL: learns a model's sidecar from text.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "apps/quire/commands/calibrate_report.h"
#include "apps/quire/commands/command_line.h"
#include "apps/quire/commands/commands.h"
#include "apps/quire/commands/sidecar_place.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/progress.h"
#include "base/regular_file.h"
#include "base/writable_place.h"
#include "bench/eval/ec_learn.h"
#include "bench/eval/key_form.h"
#include "bench/eval/means.h"
#include "bench/eval/metric.h"
#include "bench/eval/query_covariance.h"
#include "bench/eval/row_maps.h"
#include "bench/eval/schedule.h"
#include "bench/places.h"
#include "bench/text.h"
#include "engine/model/vocab.h"

namespace quire::commands {
namespace {

constexpr std::string_view kFooter = R"(
What it learns goes into one file, the model's sidecar; codecs of the cache work better with it:
  means       keys and values have a large constant part, one vector per layer and KV head. Taking
              it off costs no bit and makes 4-bit keys about twice as good.
  pairs       the mean of keys before RoPE is larger than the one after it, but each pair of
              dimensions in which it is taken off costs attention time. The fewest pairs are chosen
              that are nearly as good as the best, on text that the means were not learned from.
  schedule    layers differ in how much coding them moves the model's answers. Each side of each
              layer is coded alone and the answers compared; --bits are then given where they
              help most.
  components  for the cold codec ec: principal directions of keys and values, and how their numbers
              are distributed, and how each layer is foretold from the one before.
  turns       for i2c and tq2.5: a matrix for each head after which two bits a number cost least,
              and which dimensions vary most.
Any text like that which the model will serve is good; a few thousand tokens are enough. Without
--text, Quire's own documents are read. Pages name the sidecar that they were coded with, so those
of an older one become misses.

  quire calibrate MODEL.gguf                       means and a schedule of 4.5 bits; some minutes
  quire calibrate MODEL.gguf --bits 0              means only; some seconds
  quire calibrate MODEL.gguf --text chats.txt --text code.txt --bits 3.3
  quire eval MODEL.gguf --sidecar FILE             judge the result
  quire serve MODEL.gguf --kv-codec schedule --kv-sidecar FILE
                                                   serve with the schedule's widths
)";

constexpr uint32_t kTokensMin = 256;
constexpr uint64_t kTextBytesMax = uint64_t{1} << 28;

struct CalibrateFlags {
    std::string model;
    std::vector<std::string> texts;
    std::string out;
    uint32_t tokens = 4096;
    uint32_t sensitivity_tokens = 2048;
    double bits = 4.5;
    double cold_bits = 2.5;
    std::string sensitivity;
    std::optional<uint32_t> key_pairs;
    uint32_t threads = 0;
    bool json = false;
};

Result<std::vector<TokenId>> find_tokens(const CalibrateFlags& flags, const Vocab& vocab) {
    std::string all;
    for (const std::string& path : flags.texts) {
        auto text = read_regular_file(path, "the text", kTextBytesMax);
        if (!text.ok()) return text.error();
        all += *text + "\n\n";
    }
    if (flags.texts.empty()) all = bench::whole_text();
    // A token has a byte at least, mostly four; no need to read on for hours.
    all.resize(std::min(all.size(), size_t{flags.tokens} * 32));
    auto tokens = vocab.tokenize(all, true);
    if (!tokens.ok()) return tokens.error();
    if (tokens->size() > flags.tokens) tokens->resize(flags.tokens);
    if (tokens->size() < kTokensMin)
        return make_error(Code::invalid, fmt::format("the text has {} tokens; at least {} are "
                                                     "needed, a few thousand are better",
                                                     tokens->size(), kTokensMin));
    return tokens;
}

// From another sidecar of the model, or measured.
Result<bench::Sensitivity> find_sensitivity(const CalibrateFlags& flags, const GgufModel& model,
                                            const bench::EvalOptions& options) {
    if (flags.sensitivity.empty()) return bench::measure_sensitivity(model, options);
    const auto read = codec::read_sidecar(flags.sensitivity);
    if (!read.ok()) return read.error();
    QUIRE_TRY(codec::match_sidecar(read->sidecar, model.id(), model.kv_layout(16)));
    if (read->sidecar.sensitivity.empty())
        return make_error(Code::invalid, flags.sensitivity + " has no sensitivity: measure it");
    return bench::Sensitivity::of(read->sidecar);
}

// Before the model is opened, and long before the result is written.
Status check_files(const CalibrateFlags& flags) {
    if (!flags.sensitivity.empty()) QUIRE_TRY(codec::read_sidecar(flags.sensitivity));
    if (flags.out.empty()) return {};
    const Status place = check_writable_place(flags.out);
    if (place.ok()) return {};
    return make_error(place.code(), "--out: " + place.error().message);
}

Status check_key_pairs(const CalibrateFlags& flags, const GgufModel& model) {
    const uint32_t most = bench::key_pairs_max(model);
    if (flags.key_pairs.value_or(0) <= most) return {};
    return make_error(Code::invalid, fmt::format("--key-pairs {}: heads of this model have {}",
                                                 *flags.key_pairs, most));
}

struct Learned {
    codec::Sidecar sidecar;
    std::vector<bench::KeyForm> key_forms;  // empty: --key-pairs said it
};

Result<Learned> learn(const CalibrateFlags& flags, const GgufModel& model,
                      const std::vector<TokenId>& text) {
    bench::EvalOptions options{.threads = flags.threads == 0 ? machine_cores() : flags.threads};
    options.calibration = text;
    options.calibration.resize(std::min<size_t>(text.size(), flags.sensitivity_tokens));
    Learned learned;
    codec::Sidecar& sidecar = learned.sidecar;
    sidecar.model = model.id();
    sidecar.layers = codec::sidecar_layers(model.kv_layout(16));
    options.sidecar = &sidecar;
    const uint64_t probing =
        flags.bits > 0 && flags.sensitivity.empty() ? bench::sensitivity_tokens(model, options) : 0;
    Progress progress("tokens through the model", text.size() + probing);
    uint64_t done = 0;
    options.computed = [&](uint64_t tokens) { progress.update(done += tokens); };

    bench::QueryEnergy queries(model);
    bench::QueryCovariance covariance(model, &queries);
    auto pages = bench::pages_of(model, text, options.threads, options.computed, &covariance);
    if (!pages.ok()) return pages.error();
    const auto tokens = static_cast<uint32_t>(text.size());
    const auto means = bench::ModelMeans::learn(model, *pages, tokens);
    means.store(&sidecar);
    if (!flags.key_pairs)
        learned.key_forms = bench::judge_key_forms(model, *pages, tokens, queries);
    sidecar.key_pairs =
        flags.key_pairs ? *flags.key_pairs : bench::choose_key_pairs(learned.key_forms);
    if (flags.bits > 0) {
        auto sensitivity = find_sensitivity(flags, model, options);
        if (!sensitivity.ok()) return sensitivity.error();
        sensitivity->store(&sidecar);
        const auto head_dim = static_cast<uint32_t>(model.hparams().head_dim);
        bench::allocate_joined(*sensitivity, flags.bits, head_dim, model.kv_layout(16))
            .store(&sidecar);
    }
    progress.finish();
    std::cerr << "components of keys and values, and what foretells them" << std::endl;
    const auto metrics = bench::metrics_of(model, queries);
    const auto maps = bench::learn_row_maps(*pages, tokens, means, metrics, covariance);
    maps.matrices.store(&sidecar);
    maps.orders.store(&sidecar);
    bench::learn_ec(*pages, tokens, means, metrics, sidecar, flags.cold_bits).store(&sidecar);
    return learned;
}

Result<CalibrateReport> calibrate(const CalibrateFlags& flags, const bench::BenchModel& named,
                                  codec::Sidecar* sidecar) {
    auto vocab = Vocab::open(named.path);
    if (!vocab.ok()) return vocab.error();
    auto text = find_tokens(flags, **vocab);
    if (!text.ok()) return text.error();
    auto model = GgufModel::open(named.path);
    if (!model.ok()) return model.error();
    QUIRE_TRY(check_key_pairs(flags, **model));
    CalibrateReport report{.model = named.name, .path = flags.out};
    if (report.path.empty()) {
        report.path = sidecar_place((*model)->id());
        std::error_code ignored;  // writing says what is wrong
        std::filesystem::create_directories(std::filesystem::path(report.path).parent_path(),
                                            ignored);
    }
    QUIRE_TRY(check_writable_place(report.path));
    if (flags.bits > 0 && !flags.sensitivity.empty())
        QUIRE_TRY(find_sensitivity(flags, **model, {}));  // it is another model's, or has none
    auto learned = learn(flags, **model, *text);
    if (!learned.ok()) return learned.error();
    *sidecar = std::move(learned->sidecar);
    report.key_forms = std::move(learned->key_forms);
    const auto hash = codec::write_sidecar(report.path, *sidecar);
    if (!hash.ok()) return hash.error();
    report.hash = *hash;
    report.tokens = static_cast<uint32_t>(text->size());
    report.sidecar = sidecar;
    if (!sidecar->bits.empty())
        report.bits =
            bench::Schedule::of(*sidecar).bits(static_cast<uint32_t>((*model)->hparams().head_dim));
    return report;
}

}  // namespace

int run_calibrate(int argc, const char* const* argv) {
    CLI::App app("Learns what a model's codecs need to be good, from text, into its sidecar.",
                 "quire calibrate");
    CalibrateFlags flags;
    app.add_option("MODEL", flags.model, "a GGUF file")->required();
    app.add_option("--text", flags.texts, "a file to learn from; may be given several times");
    app.add_option("--out", flags.out,
                   "the sidecar; default: beside the models, named by the model's id");
    app.add_option("--bits", flags.bits,
                   "a number, for the schedule, scales included (4.5); 0: no schedule")
        ->check(CLI::Range(0.0, 8.5));
    app.add_option("--sensitivity", flags.sensitivity,
                   "take it from this sidecar of the model; default: measure it");
    app.add_option("--cold-bits", flags.cold_bits,
                   "a number, at which ec, the cold codec, is to be best (2.5)")
        ->check(CLI::Range(1.0, 6.0));
    app.add_option("--key-pairs", flags.key_pairs,
                   "pairs of dimensions of a head that lose the mean of keys before RoPE; default: "
                   "measured")
        ->check(CLI::Range(0u, codec::kMaxKeyPairs));
    app.add_option("--tokens", flags.tokens, "at most so many of the text (4096)")
        ->check(CLI::Range(kTokensMin, 1u << 20));
    app.add_option("--sensitivity-tokens", flags.sensitivity_tokens,
                   "of them that sensitivity is measured on (2048)")
        ->check(CLI::Range(kTokensMin, 1u << 20));
    app.add_option("--threads", flags.threads, "that compute; 0: every core")
        ->check(CLI::Range(0, 512));
    app.add_flag("--json", flags.json, "print one JSON object");
    app.footer(std::string(kFooter));
    if (auto code = parse_flags(app, argc, argv)) return *code;
    if (flags.bits > 0 && flags.bits < 2.1)
        return fail("calibrate", "--bits below 2.1 cannot be had; 0 makes no schedule");
    log::configure({.level = log::Level::error});
    if (const Status files = check_files(flags); !files.ok())
        return fail("calibrate", files.error().message);
    auto models = bench::find_models({flags.model});
    if (!models.ok()) return fail("calibrate", models.error().message);
    codec::Sidecar sidecar;
    const auto report = calibrate(flags, models->front(), &sidecar);
    if (!report.ok()) return fail("calibrate", report.error().message);
    std::cout << (flags.json ? calibrate_json(*report) : calibrate_text(*report)) << std::flush;
    return kExitOk;
}

}  // namespace quire::commands
