// What serving with a codec does to a model's answers, and what llama.cpp's q8_0 cache does to its
// own: each engine over its coded cache beside itself over its 16-bit one, teacher-forced on the
// same text. Divergence of the second half's next-token distributions, in nats.
#include <array>
#include <memory>

#include <fmt/format.h>

#include "bench/cases/cases.h"
#include "bench/eval/divergence.h"
#include "bench/eval/kv_pages.h"
#include "bench/eval/means.h"
#include "bench/llama_cache.h"
#include "bench/text.h"
#include "codec/sidecar.h"
#include "engine/model/kv_coding.h"
#include "engine/model/vocab.h"

namespace quire::bench {
namespace {

constexpr uint32_t kJudgedTokens = 2048;
constexpr uint32_t kQuickTokens = 256;
constexpr uint32_t kLearnTokens = 2048;
constexpr double kBar = 0.05;
constexpr uint32_t kStep = LlamaCache::kBatchTokens;

// Rows of logits of the next tokens, from either engine.
using Stepper = std::function<Result<std::span<const float>>(TokenSpan)>;

// The engine's forward over pages of its own.
class ForwardText {
 public:
    static Result<std::unique_ptr<ForwardText>> open(const GgufModel& model, const KvCoding& coding,
                                                     uint32_t tokens, uint32_t threads) {
        auto text = std::make_unique<ForwardText>();
        auto forward = Forward::create(model, {.n_threads = static_cast<int32_t>(threads),
                                               .block_tokens = kCodedBlockTokens,
                                               .coding = coding,
                                               .max_rows = kStep,
                                               .max_sequences = 1,
                                               .max_logit_rows = kStep});
        if (!forward.ok()) return forward.error();
        text->forward_ = std::move(forward).value();
        auto pages = KvPages::create(text->forward_->layout(), tokens);
        if (!pages.ok()) return pages.error();
        text->pages_ = std::move(pages).value();
        return text;
    }
    Result<std::span<const float>> step(TokenSpan tokens) {
        const auto n = static_cast<int32_t>(tokens.size());
        const StepSequence s = pages_.sequence(tokens, position_, n);
        auto done = forward_->step({&s, 1});
        if (!done.ok()) return done.error();
        position_ += n;
        return std::span<const float>(done->logits);
    }

 private:
    std::unique_ptr<Forward> forward_;
    KvPages pages_;
    int32_t position_ = 0;
};

// KL of `coded` from `exact` over the text's second half.
Result<Divergence> judge(const std::vector<TokenId>& text, const Stepper& exact,
                         const Stepper& coded) {
    DivergenceTally tally;
    const size_t n = text.size() - 1;  // the last one has no next
    std::vector<float> kept;
    for (size_t at = 0; at < n; at += kStep) {
        const TokenSpan some = TokenSpan(text).subspan(at, std::min<size_t>(kStep, n - at));
        auto reference = exact(some);
        if (!reference.ok()) return reference.error();
        kept.assign(reference->begin(), reference->end());
        auto candidate = coded(some);
        if (!candidate.ok()) return candidate.error();
        const size_t vocab = kept.size() / some.size();
        for (size_t i = 0; i < some.size(); ++i) {
            if (at + i < n / 2) continue;
            tally.add(LogitRow(std::span<const float>(kept).subspan(i * vocab, vocab)),
                      LogitRow(candidate->subspan(i * vocab, vocab)), text[at + i + 1]);
        }
    }
    return tally.result();
}

// With means and turns, as `quire serve --kv-sidecar` has them; learned from other text.
Result<KvCoding> learn_coding(const GgufModel& model, const std::string& codec,
                              const std::vector<TokenId>& text, uint32_t threads) {
    const KvLayout plain = model.kv_layout(kCodedBlockTokens);
    auto coding = find_kv_coding(codec, quire::kSinkTokens, plain);
    if (!coding.ok()) return coding.error();
    if (!coding->any())
        return make_error(Code::invalid, "--kv-codec names no codec; k8v8 is the default");
    auto means = ModelMeans::learn(model, text, threads);
    if (!means.ok()) return means.error();
    codec::Sidecar sidecar{.model = model.id(), .layers = codec::sidecar_layers(plain)};
    means->store(&sidecar);
    const Hash128 hash = codec::sidecar_file(sidecar).hash;
    QUIRE_TRY(take_sidecar(&*coding, {std::move(sidecar), hash}, plain));
    add_turns(&*coding, model.hparams().family->rope, model.hparams().rope_dim);
    return coding;
}

template <typename Source>
Stepper stepper(Source& source) {
    return [&source](TokenSpan tokens) { return source.step(tokens); };
}

Result<Divergence> judge_ours(const GgufModel& model, const KvCoding& coding,
                              const std::vector<TokenId>& text, uint32_t threads) {
    const auto n = static_cast<uint32_t>(text.size());
    auto exact = ForwardText::open(model, {}, n, threads);
    if (!exact.ok()) return exact.error();
    auto coded = ForwardText::open(model, coding, n, threads);
    if (!coded.ok()) return coded.error();
    return judge(text, stepper(**exact), stepper(**coded));
}

Result<Divergence> judge_llama(const std::string& path, const std::vector<TokenId>& text,
                               uint32_t threads) {
    const auto n = static_cast<uint32_t>(text.size());
    auto exact = LlamaCache::open(path, "f16", n, threads);
    if (!exact.ok()) return exact.error();
    auto coded = LlamaCache::open(path, "q8_0", n, threads);
    if (!coded.ok()) return coded.error();
    return judge(text, stepper(**exact), stepper(**coded));
}

Result<std::vector<BarRow>> run_model(const BenchOptions& options, const BenchModel& named) {
    auto vocab = Vocab::open(named.path);
    if (!vocab.ok()) return vocab.error();
    auto model = GgufModel::open(named.path);
    if (!model.ok()) return model.error();
    auto all = (*vocab)->tokenize(std::string(whole_text()), true);
    if (!all.ok()) return all.error();
    const uint32_t judged = options.quick ? kQuickTokens : kJudgedTokens;
    const uint32_t learned = options.quick ? kQuickTokens : kLearnTokens;
    if (all->size() < judged + 1 + learned)
        return make_error(Code::bug, "too little text to learn from and to judge");
    const std::vector<TokenId> text(all->end() - judged - 1, all->end());
    all->resize(learned);
    const std::string codec = options.kv_codec.empty() ? "k8v8" : options.kv_codec;
    options.progress(fmt::format("{}: served {} beside 16 bits", named.name, codec));
    auto coding = learn_coding(**model, codec, *all, options.threads);
    if (!coding.ok()) return coding.error();
    auto ours = judge_ours(**model, *coding, text, options.threads);
    if (!ours.ok()) return ours.error();
    options.progress(fmt::format("{}: llama.cpp with q8_0 beside f16", named.name));
    auto theirs = judge_llama(named.path, text, options.threads);
    if (!theirs.ok()) return theirs.error();
    return std::vector<BarRow>{
        ratio_row(fmt::format("{}: KL of served {} over that of llama.cpp's q8_0 cache", named.name,
                              codec),
                  "nats", ours->mean, theirs->mean, Comparison::at_most, kBar),
        info_row(fmt::format("{}: the same, 99th percentile", named.name), "nats", ours->p99,
                 theirs->p99)};
}

}  // namespace

Result<std::vector<BarRow>> run_served(const BenchOptions& options) {
    std::vector<BarRow> rows;
    for (const BenchModel& model : options.models)
        append(rows, model.name + ": served with a codec", run_model(options, model));
    return rows;
}

}  // namespace quire::bench
