// What packing for the disk is worth on a thin link: time to first token of a long prefix that
// comes from a disk capped at the speed of an object store, packed with ec and as it is.
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "bench/cases/cases.h"
#include "bench/cases/tiered_engine.h"
#include "bench/eval/ec_learn.h"
#include "bench/eval/kv_pages.h"
#include "bench/eval/means.h"
#include "bench/eval/metric.h"
#include "bench/generate.h"
#include "bench/stats.h"
#include "bench/text.h"
#include "bench/throttled_io.h"
#include "codec/sidecar.h"
#include "engine/model/vocab.h"

namespace quire::bench {
namespace {

constexpr size_t kPrefixTokens = 4096;
constexpr size_t kQuickPrefixTokens = 512;
constexpr size_t kQuestionTokens = 16;  // after the prefix: computed by both sides
constexpr size_t kLearnTokens = 4096;
constexpr double kLinkBytesPerS = 25e6;
constexpr double kLearnBits = 2.5;
constexpr double kBar = 0.3;
constexpr const char* kPacking = "ec:2.7";

// What `quire calibrate --bits 0` writes, from other text than the prompt's.
Result<std::string> make_sidecar(const BenchOptions& options, const BenchModel& named,
                                 std::string_view text, const std::string& dir) {
    auto vocab = Vocab::open(named.path);
    if (!vocab.ok()) return vocab.error();
    auto model = GgufModel::open(named.path);
    if (!model.ok()) return model.error();
    auto tokens = (*vocab)->tokenize(std::string(text), true);
    if (!tokens.ok()) return tokens.error();
    tokens->resize(std::min(tokens->size(), options.quick ? kLearnTokens / 4 : kLearnTokens));
    QueryEnergy queries(**model);
    auto pages = pages_of(**model, *tokens, options.threads, {}, &queries);
    if (!pages.ok()) return pages.error();
    const auto n = static_cast<uint32_t>(tokens->size());
    codec::Sidecar sidecar{.model = (*model)->id(),
                           .layers = codec::sidecar_layers((*model)->kv_layout(16))};
    const auto means = ModelMeans::learn(**model, *pages, n);
    means.store(&sidecar);
    learn_ec(*pages, n, means, metrics_of(**model, queries), sidecar, kLearnBits).store(&sidecar);
    const std::string path = dir + "/" + named.name + ".sidecar";
    if (auto written = codec::write_sidecar(path, sidecar); !written.ok()) return written.error();
    return path;
}

size_t prefix_tokens(const BenchOptions& options) {
    return options.quick ? kQuickPrefixTokens : kPrefixTokens;
}

struct Hits {
    std::vector<double> first_token_s;
    uint64_t stored_bytes = 0;
    std::string wrong;  // why a hit was none; empty: all were
};

// A prefix computed, left on disk alone, and asked for after a restart.
Result<Hits> measure(const BenchOptions& options, const BenchModel& model, const std::string& dir,
                     std::string_view text, const std::string& sidecar) {
    Hits hits;
    auto plain_io = make_io_engine({});
    if (!plain_io.ok()) return plain_io.error();
    ThrottledIo io(std::move(plain_io).value(), kLinkBytesPerS);
    TieredEngine tiered(options, model, dir);
    tiered.options().io = &io;
    tiered.options().cold_cpu_percent = 100;
    if (!sidecar.empty()) {
        tiered.options().kv_sidecar = sidecar;
        tiered.options().kv_codec_cold = kPacking;
        tiered.options().block_tokens = 64;  // as `quire serve` has them then
    }
    QUIRE_TRY(tiered.open());
    const size_t prefix = prefix_tokens(options);
    auto prompt = prompt_of(tiered.engine(), text, prefix + kQuestionTokens);
    if (!prompt.ok()) return prompt.error();
    for (uint32_t i = 0; i < options.repeats; ++i) {
        GenerateRequest request = greedy_request(*prompt, 4);
        request.cache_salt = std::to_string(i);
        QUIRE_TRY(tiered.warm_up());
        auto cold = generate(tiered.engine(), request, kAnswerWait_ns);
        if (!cold.ok()) return cold.error();
        QUIRE_TRY(tiered.leave_only(Tier::g3));
        QUIRE_TRY(tiered.restart());
        QUIRE_TRY(tiered.warm_up());
        auto hit = generate(tiered.engine(), request, kAnswerWait_ns);
        if (!hit.ok()) return hit.error();
        hits.first_token_s.push_back(static_cast<double>(hit->timing.first_token_ns) * 1e-9);
        const uint32_t cached = hit->timing.cached_tokens[static_cast<int>(Tier::g3)];
        if (cached != prefix)
            hits.wrong = fmt::format("{} of {} tokens came from disk ({})", cached, prefix,
                                     hit->timing.miss_reason);
    }
    for (const auto& row : tiered.engine().cache_status().tiers)
        if (row.tier == "g3") hits.stored_bytes = row.used_bytes;
    tiered.close();
    return hits;
}

Result<std::vector<BarRow>> run_model(const BenchOptions& options, const BenchModel& model,
                                      const std::string& dir) {
    const std::string_view text = whole_text();
    options.progress(model.name + ": learning what ec needs");
    auto sidecar = make_sidecar(options, model, text.substr(text.size() / 2), dir);
    if (!sidecar.ok()) return sidecar.error();
    options.progress(model.name + ": a prefix from a link of 25 MB/s, as it is");
    auto raw = measure(options, model, dir + "/raw", text, "");
    if (!raw.ok()) return raw.error();
    options.progress(fmt::format("{}: the same, packed with {}", model.name, kPacking));
    auto packed = measure(options, model, dir + "/packed", text, *sidecar);
    if (!packed.ok()) return packed.error();
    std::vector<BarRow> rows;
    rows.push_back(ratio_row(
        fmt::format("{}: first token, prefix of {} tokens over 25 MB/s, {} / raw16", model.name,
                    prefix_tokens(options), kPacking),
        "s", median(packed->first_token_s), median(raw->first_token_s), Comparison::at_most, kBar));
    rows.push_back(info_row(model.name + ": bytes on disk", "MB",
                            static_cast<double>(packed->stored_bytes) * 1e-6,
                            static_cast<double>(raw->stored_bytes) * 1e-6));
    for (const Hits* hits : {&*raw, &*packed})
        if (!hits->wrong.empty())
            rows.push_back(failed_row(model.name + ": hits come from disk", hits->wrong));
    return rows;
}

}  // namespace

Result<std::vector<BarRow>> run_cold(const BenchOptions& options) {
    std::vector<BarRow> rows;
    for (const BenchModel& model : options.models) {
        auto scratch = ScratchFolder::create(options.scratch_dir);
        if (!scratch.ok()) return scratch.error();
        append(rows, model.name + ": cold tier", run_model(options, model, scratch->path()));
    }
    return rows;
}

}  // namespace quire::bench
