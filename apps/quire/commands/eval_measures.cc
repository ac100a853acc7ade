#include "apps/quire/commands/eval_measures.h"

#include <algorithm>

#include <CLI/CLI.hpp>

namespace quire::commands {
namespace {

constexpr uint32_t kDefaultKeyTokens = 512;
constexpr uint32_t kPromptTokensMax = 256;
constexpr uint32_t kQuestionTokensMax = 64;

}  // namespace

void add_measure_flags(CLI::App* app, MeasureFlags* flags) {
    app->add_flag("--no-noise-floor", flags->no_noise_floor,
                  "leave out the row of bf16 pages, what 16 bits leave open");
    app->add_flag("--no-layer-errors", flags->no_layer_errors,
                  "leave out the error of attention's output");
    app->add_option("--greedy", flags->greedy,
                    "prompts cut from the text and continued greedily (4); 0: none")
        ->check(CLI::Range(0, 64));
    app->add_option("--greedy-tokens", flags->greedy_tokens, "of each continuation at most (64)")
        ->check(CLI::Range(1, 4096));
    app->add_option(
           "--keys", flags->keys,
           "texts with a pass key at another depth each, asked for at the end (4); 0: none")
        ->check(CLI::Range(0, 64));
    app->add_option("--key-tokens", flags->key_tokens,
                    "of each such text, at most --tokens (512, or --tokens if that is less)")
        ->check(CLI::Range(64, 1 << 20));
    app->add_option("--seed", flags->seed, "of the planted keys, and of --generate (1)");
}

uint64_t Measures::tokens(size_t candidates) const {
    uint64_t tokens = greedy.prompts > 0 ? bench::greedy_tokens(candidates, greedy) : 0;
    if (!key_texts.empty()) tokens += bench::key_tokens(candidates, key_texts);
    return tokens;
}

Result<Measures> plan_measures(const MeasureFlags& flags, const std::vector<TokenId>& text,
                               const Vocab& vocab, const GgufModel& model,
                               const bench::EvalOptions& options) {
    const auto context = static_cast<uint32_t>(model.hparams().context_tokens);
    Measures out{
        .greedy = {.threads = options.threads,
                   .prompts = flags.greedy,
                   .prompt_tokens = std::min(kPromptTokensMax, options.tokens / 2),
                   .tokens = flags.greedy_tokens,
                   .exact = options.exact,
                   .ends = [&vocab](TokenId token) { return vocab.is_end(token); },
                   .computed = options.computed},
        .keys = {.keys = flags.keys,
                 .tokens = flags.key_tokens.value_or(std::min(kDefaultKeyTokens, options.tokens)),
                 .seed = flags.seed,
                 .exact = options.exact},
        .key_texts = {}};
    out.keys.tokens = std::min(out.keys.tokens, context - kQuestionTokensMax);
    if (out.greedy.prompt_tokens + out.greedy.tokens > context)
        out.greedy.tokens = context - out.greedy.prompt_tokens;
    if (out.keys.keys == 0) return out;
    const auto tokenize = [&](std::string_view part) { return vocab.tokenize(part, false); };
    auto texts = bench::plant_keys(text, tokenize, out.keys);
    if (!texts.ok()) return texts.error();
    out.key_texts = std::move(texts).value();
    return out;
}

Status measure(const GgufModel& model, const std::vector<TokenId>& text,
               const std::vector<std::unique_ptr<bench::Candidate>>& candidates,
               const bench::EvalOptions& options, const Measures& measures, EvalReport* report) {
    const auto means = bench::eval_means(model, options);
    if (!means.ok()) return means.error();
    auto rows = bench::evaluate(model, text, candidates, *means, options);
    if (!rows.ok()) return rows.error();
    report->rows = std::move(rows).value();
    report->greedy = measures.greedy;
    if (measures.greedy.prompts > 0) {
        auto greedy = bench::continue_greedily(model, text, candidates, *means, measures.greedy);
        if (!greedy.ok()) return greedy.error();
        for (size_t i = 0; i < greedy->size(); ++i)
            report->rows[i].greedy = std::move((*greedy)[i]);
    }
    report->keys = measures.keys;
    if (measures.key_texts.empty()) return {};
    auto found = bench::find_keys(model, measures.key_texts, candidates, *means, options.threads,
                                  options.computed, options.exact);
    if (!found.ok()) return found.error();
    for (size_t i = 0; i < found->candidates.size(); ++i)
        report->rows[i].keys = std::move(found->candidates[i]);
    report->keys_by_16_bit = std::move(found->exact);
    for (const bench::KeyText& key : measures.key_texts) report->key_depths.push_back(key.depth);
    return {};
}

}  // namespace quire::commands
