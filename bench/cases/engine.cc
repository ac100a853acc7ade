// The engine beside llama.cpp: prefill, decode at depth, and eight requests at once, on the same
// files with the same threads. The two take turns; ours is measured through the engine's own API,
// sampling and scheduling included.
#include <algorithm>

#include <fmt/format.h>

#include "bench/cases/cases.h"
#include "bench/cases/tiered_engine.h"
#include "bench/generate.h"
#include "bench/llama_peer.h"
#include "bench/stats.h"
#include "bench/text.h"
#include "kernels/attention.h"

namespace quire::bench {
namespace {

constexpr uint32_t kDecodeTokens = 32;
constexpr uint32_t kSequences = 8;
constexpr uint32_t kSequenceDepth = 1024;
constexpr double kOverCodedPeer = 6;

struct Sides {
    std::vector<double> ours, theirs;  // tokens a second
};

class EngineRun {
 public:
    EngineRun(const BenchOptions& options, const BenchModel& model, const std::string& dir,
              const LlamaPeer& peer)
        : options_(options), model_(model), peer_(peer), tiered_(options, model, dir) {
        // G1 alone: decode at depth starts from a hit, nothing is written meanwhile.
        tiered_.options().disk_dir.clear();
        tiered_.options().host_memory_bytes = 0;
    }

    Result<std::vector<BarRow>> run() {
        QUIRE_TRY(tiered_.open());
        QUIRE_TRY(tiered_.warm_up());
        const bool smol = model_.smollm2();
        const bool wide = options_.attention->isa == kernels::Isa::avx512;
        const uint32_t deep = options_.quick ? 512 : 4096;
        QUIRE_TRY(prefill(512, 1.0));
        if (!options_.quick) QUIRE_TRY(prefill(4096, !smol ? 1.0 : wide ? 1.2 : 1.05));
        QUIRE_TRY(decode(0, 1.0));
        QUIRE_TRY(decode(deep, !smol ? 1.1 : wide ? 3.5 : 2.5));
        if (!options_.kv_codec.empty()) QUIRE_TRY(decode(deep, kOverCodedPeer, "q8_0"));
        QUIRE_TRY(at_once(1.8));
        return std::move(rows_);
    }

 private:
    // Calls the two measurements in turns, each going first every other time; where the row is
    // wanted.
    template <typename Ours, typename Theirs>
    Status compare(const std::string& what, double bar, Ours ours, Theirs theirs) {
        if (what.find(options_.only) == std::string::npos) return {};
        Sides sides;
        for (uint32_t i = 0; i < options_.repeats; ++i) {
            options_.progress(
                fmt::format("{}: {}, round {} of {}", model_.name, what, i + 1, options_.repeats));
            for (bool us : {i % 2 == 0, i % 2 != 0}) {
                Result<double> rate = us ? ours(i) : theirs();
                if (!rate.ok()) return rate.error();
                (us ? sides.ours : sides.theirs).push_back(*rate);
            }
        }
        rows_.push_back(paired_row(model_.name + ": " + what, "tok/s", median(sides.ours),
                                   median(sides.theirs), median_ratio(sides.ours, sides.theirs),
                                   Comparison::at_least, bar));
        return {};
    }

    Result<Answer> ask(uint32_t n_prompt, uint32_t n_answer, const std::string& salt) {
        auto prompt = prompt_of(tiered_.engine(), whole_text(), n_prompt);
        if (!prompt.ok()) return prompt.error();
        GenerateRequest request = greedy_request(std::move(prompt).value(), n_answer);
        request.cache_salt = salt;
        return generate(tiered_.engine(), std::move(request), kAnswerWait_ns);
    }

    Status prefill(uint32_t n_tokens, double bar) {
        return compare(
            fmt::format("prefill, {} tokens", n_tokens), bar,
            [&](uint32_t round) -> Result<double> {
                auto answer = ask(n_tokens, 1, fmt::format("prefill {} {}", n_tokens, round));
                if (!answer.ok()) return answer.error();
                return n_tokens * 1e9 / static_cast<double>(answer->timing.prefill_ns);
            },
            [&] { return peer_.prefill(model_.path, n_tokens); });
    }

    Status decode(uint32_t depth, double bar, const std::string& peer_cache = "f16") {
        return compare(
            fmt::format("decode at depth {}{}", depth,
                        peer_cache == "f16" ? "" : ", its cache " + peer_cache),
            bar,
            [&](uint32_t) -> Result<double> {
                auto answer = ask(std::max(depth, 1u), kDecodeTokens + 1, "decode");
                if (!answer.ok()) return answer.error();
                return kDecodeTokens * 1e9 / static_cast<double>(answer->timing.decode_ns);
            },
            [&] { return peer_.decode(model_.path, depth, kDecodeTokens, peer_cache); });
    }

    // Decode begins for all when the last prompt is done: hits in G1, so at once.
    Status at_once(double bar) {
        const uint32_t depth = options_.quick ? 128 : kSequenceDepth;
        return compare(
            fmt::format("decode, {} at once, {} deep", kSequences, depth), bar,
            [&](uint32_t) { return decode_at_once(depth); },
            [&] { return peer_.batched_decode(model_.path, kSequences, depth, kDecodeTokens); });
    }

    Result<double> decode_at_once(uint32_t depth) {
        std::vector<GenerateRequest> fill, requests;
        for (uint32_t s = 0; s < kSequences; ++s) {
            auto prompt =
                prompt_of(tiered_.engine(), passage(90'000 + s, size_t{depth} * 8), depth);
            if (!prompt.ok()) return prompt.error();
            fill.push_back(greedy_request(*prompt, 1));
            requests.push_back(greedy_request(std::move(prompt).value(), kDecodeTokens + 1));
        }
        if (auto filled = generate_all(tiered_.engine(), std::move(fill), kAnswerWait_ns);
            !filled.ok())
            return filled.error();
        auto answers = generate_all(tiered_.engine(), std::move(requests), kAnswerWait_ns);
        if (!answers.ok()) return answers.error();
        int64_t longest_ns = 0;
        for (const Answer& answer : *answers)
            longest_ns = std::max(longest_ns, answer.timing.decode_ns);
        return kSequences * kDecodeTokens * 1e9 / static_cast<double>(longest_ns);
    }

    const BenchOptions& options_;
    const BenchModel& model_;
    const LlamaPeer& peer_;
    TieredEngine tiered_;
    std::vector<BarRow> rows_;
};

}  // namespace

Result<std::vector<BarRow>> run_engine(const BenchOptions& options) {
    auto peer = LlamaPeer::find(options.llama_bench, options.threads);
    if (!peer.ok()) return peer.error();
    std::vector<BarRow> rows;
    for (const BenchModel& model : options.models) {
        auto scratch = ScratchFolder::create(options.scratch_dir);
        if (!scratch.ok()) return scratch.error();
        auto measured = EngineRun(options, model, scratch->path(), *peer).run();
        append(rows, model.name + ": over llama.cpp", std::move(measured));
    }
#ifdef QUIRE_ATTENTION_BENCH
    if (options.only.empty()) append(rows, "decode attention", run_attention(options));
#endif
    return rows;
}

}  // namespace quire::bench
