#include "bench/ec_speed.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "base/check.h"
#include "bench/cases/tiered_engine.h"
#include "bench/eval/ec_learn.h"
#include "bench/generate.h"
#include "bench/stats.h"
#include "bench/text.h"
#include "codec/ec/block.h"
#include "codec/ec/kernels.h"
#include "engine/model/vocab.h"

namespace quire::bench {
namespace {

// The fastest of what the engine's products may use too: both sides of a ratio the same.
const codec::ec::Kernels& kernels_of(const kernels::AttentionOps& attention) {
    const codec::ec::Kernels* found = &codec::ec::best_kernels();
    if (attention.isa == Isa::avx512) return *found;
    for (const codec::ec::Kernels& one : codec::ec::all_kernels()) {
        const bool wide = std::string_view(one.name).starts_with("avx512");
        if (one.cpu_has_it() && !wide) found = &one;
    }
    return *found;
}

namespace ec = codec::ec;

constexpr uint32_t kLearnedTokens = 4096;
constexpr uint32_t kCodedTokens = 1024;
constexpr uint32_t kPrefillTokens = 1024;

double seconds_passed(const auto& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Rows of one chain, by block and layer of the chain: [kv_heads][tokens][head_dim].
struct LayerNumbers {
    std::vector<float> k, v;
};
using Block = std::vector<LayerNumbers>;

struct Learned {
    ec::Model foretold, alone;
    std::vector<std::vector<uint16_t>> chains;
    std::vector<std::vector<Block>> blocks;  // [chain][block]
};

// Where a model's layer stands in its chain.
struct Place {
    size_t chain = 0, layer = 0;
};
Place place_of(const std::vector<std::vector<uint16_t>>& chains, uint32_t layer) {
    for (size_t c = 0; c < chains.size(); ++c) {
        const auto at = std::ranges::find(chains[c], layer);
        if (at != chains[c].end()) return {c, static_cast<size_t>(at - chains[c].begin())};
    }
    QUIRE_CHECK(false, "a layer without a chain");
    return {};
}

// The end of the text, cut into blocks.
void read_blocks(const KvPages& pages, const ModelMeans& means, uint32_t first, uint32_t last,
                 Learned* out) {
    out->blocks.resize(out->chains.size());
    for (size_t c = 0; c < out->chains.size(); ++c)
        out->blocks[c].assign((last - first) / kEcBlockTokens, Block(out->chains[c].size()));
    for (const KvPages::Rows& rows : rows_by_layer(pages.layout(), first, last)) {
        const KvGroup& group = pages.layout().groups[rows.group];
        const uint32_t layer = group.layers[rows.layer_in_group];
        std::vector<float> k(size_t{last - first} * group.head_dim), v(k.size());
        pages.read(rows, k.data(), v.data());
        means.turn(layer, first, last, Turn::back, k.data());
        const Place place = place_of(out->chains, layer);
        const size_t numbers = size_t{kEcBlockTokens} * group.head_dim;
        for (size_t b = 0; b < out->blocks[place.chain].size(); ++b) {
            LayerNumbers& into = out->blocks[place.chain][b][place.layer];
            const auto begin = static_cast<int64_t>(b * numbers);
            const auto end = begin + static_cast<int64_t>(numbers);
            into.k.insert(into.k.end(), k.begin() + begin, k.begin() + end);
            into.v.insert(into.v.end(), v.begin() + begin, v.begin() + end);
        }
    }
}

Result<Learned> learn(const BenchOptions& options, const BenchModel& named) {
    auto vocab = Vocab::open(named.path);
    if (!vocab.ok()) return vocab.error();
    auto text = (*vocab)->tokenize(whole_text(), true);
    if (!text.ok()) return text.error();
    text->resize(std::min<size_t>(text->size(), kLearnedTokens / (options.quick ? 2 : 1)));
    auto model = GgufModel::open(named.path);
    if (!model.ok()) return model.error();
    QueryEnergy queries(**model);
    auto pages = pages_of(**model, *text, options.threads, {}, &queries);
    if (!pages.ok()) return pages.error();
    const auto tokens = static_cast<uint32_t>(text->size());
    codec::Sidecar sidecar{.model = (*model)->id(),
                           .layers = codec::sidecar_layers((*model)->kv_layout(16))};
    const ModelMeans means = ModelMeans::learn(**model, *pages, tokens);
    means.store(&sidecar);
    learn_ec(*pages, tokens, means, metrics_of(**model, queries), sidecar, kEcBits).store(&sidecar);
    auto learned = ec::Model::of(sidecar);
    if (!learned.ok()) return learned.error();
    Learned out{.foretold = *learned,
                .alone = learned->within({}),
                .chains = ec::chains_of(sidecar.layers),
                .blocks = {}};
    const uint32_t coded = kCodedTokens / (options.quick ? 4 : 1);
    read_blocks(*pages, means, tokens - coded, tokens, &out);
    return out;
}

// All blocks of all chains with one model.
class Coding {
 public:
    static Result<Coding> create(const Learned& learned, const ec::Model& model,
                                 const ec::Kernels& kernels) {
        Coding out(learned);
        for (const std::vector<uint16_t>& chain : learned.chains) {
            auto coder = ec::BlockCoder::create(model, chain, kEcBits);
            if (!coder.ok()) return coder.error();
            coder->use(kernels);
            out.coders_.push_back(std::move(coder).value());
        }
        return out;
    }

    void encode() {
        bytes_.clear();
        ends_.clear();
        each_block([&](const ec::BlockCoder& coder, const Block& block) {
            coder.encode(
                kEcBlockTokens,
                [&](uint32_t layer, const ec::LayerRows& rows) {
                    std::ranges::copy(block[layer].k, rows.k.begin());
                    std::ranges::copy(block[layer].v, rows.v.begin());
                },
                &scratch_, &bytes_);
            ends_.push_back(bytes_.size());
        });
    }
    void decode() {
        size_t n = 0, begin = 0;
        each_block([&](const ec::BlockCoder& coder, const Block&) {
            const auto own = std::span(bytes_).subspan(begin, ends_[n] - begin);
            begin = ends_[n++];
            const Status read = coder.decode(
                own, kEcBlockTokens,
                [&](uint32_t, const ec::LayerRows& rows) { seen_ += double{rows.v[0]}; },
                &scratch_);
            QUIRE_CHECK(read.ok(), "ec cannot read what it wrote");
        });
    }
    double tokens() const {
        return static_cast<double>(learned_->blocks[0].size() * kEcBlockTokens);
    }
    double bits() {
        double numbers = 0;
        each_block([&](const ec::BlockCoder&, const Block& block) {
            for (const LayerNumbers& layer : block)
                numbers += static_cast<double>(layer.k.size() + layer.v.size());
        });
        return 8 * static_cast<double>(bytes_.size()) / numbers;
    }

 private:
    explicit Coding(const Learned& learned) : learned_(&learned) {}

    template <typename F>
    void each_block(const F& f) {
        for (size_t c = 0; c < coders_.size(); ++c)
            for (const Block& block : learned_->blocks[c]) f(coders_[c], block);
    }

    const Learned* learned_;
    std::vector<ec::BlockCoder> coders_;
    ec::BlockScratch scratch_;
    std::vector<std::byte> bytes_;
    std::vector<size_t> ends_;
    double seen_ = 0;
};

struct Turns {
    std::vector<double> encode, decode;
    void take(Coding* coding) {
        encode.push_back(coding->tokens() / seconds_passed([&] { coding->encode(); }));
        decode.push_back(coding->tokens() / seconds_passed([&] { coding->decode(); }));
    }
    EcRates rates(const std::vector<double>& prefill, Coding* coding) const {
        return {median(encode), median(decode), coding->bits(), median_ratio(encode, prefill),
                median_ratio(decode, prefill)};
    }
};

Result<double> prefill(TieredEngine* tiered, uint32_t round) {
    auto prompt = prompt_of(tiered->engine(), whole_text(), kPrefillTokens);
    if (!prompt.ok()) return prompt.error();
    GenerateRequest request = greedy_request(std::move(prompt).value(), 1);
    request.cache_salt = std::to_string(round);
    auto answer = generate(tiered->engine(), std::move(request), kAnswerWait_ns);
    if (!answer.ok()) return answer.error();
    return kPrefillTokens * 1e9 / static_cast<double>(answer->timing.prefill_ns);
}

}  // namespace

Result<EcSpeed> measure_ec(const BenchOptions& options, const BenchModel& model) {
    auto learned = learn(options, model);
    if (!learned.ok()) return learned.error();
    const ec::Kernels& kernels = kernels_of(*options.attention);
    auto foretold = Coding::create(*learned, learned->foretold, kernels);
    if (!foretold.ok()) return foretold.error();
    auto alone = Coding::create(*learned, learned->alone, kernels);
    if (!alone.ok()) return alone.error();
    auto scratch = ScratchFolder::create(options.scratch_dir);
    if (!scratch.ok()) return scratch.error();
    BenchOptions one_core = options;
    one_core.threads = 1;
    TieredEngine tiered(one_core, model, scratch->path());
    tiered.options().disk_dir.clear();
    tiered.options().host_memory_bytes = 0;
    QUIRE_TRY(tiered.open());
    QUIRE_TRY(tiered.warm_up());
    std::vector<double> rates;
    Turns with, without;
    for (uint32_t i = 0; i < options.repeats; ++i) {
        auto rate = prefill(&tiered, i);
        if (!rate.ok()) return rate.error();
        rates.push_back(*rate);
        with.take(&*foretold);
        without.take(&*alone);
    }
    return EcSpeed{.isa = kernels.name,
                   .prefill = median(rates),
                   .foretold = with.rates(rates, &*foretold),
                   .alone = without.rates(rates, &*alone)};
}

}  // namespace quire::bench
