#include "bench/eval/ec_candidate.h"

#include <algorithm>
#include <atomic>
#include <charconv>

#include "base/check.h"
#include "bench/eval/means.h"
#include "bench/eval/skipping.h"
#include "codec/ec/layered.h"
#include "engine/model/ec_packing.h"

namespace quire::bench {
namespace {

constexpr uint32_t kTokens = 64;  // of a block

using Chains = std::vector<std::vector<uint16_t>>;

// How a chain's blocks are coded: whole, or in two parts.
class ChainCoder {
 public:
    static Result<ChainCoder> create(const codec::ec::Model& model,
                                     const std::vector<uint16_t>& chain, const EcBits& bits) {
        ChainCoder out;
        if (bits.more > 0) {
            auto two = codec::ec::LayeredCoder::create(model, chain, bits.base, bits.more);
            if (!two.ok()) return two.error();
            out.two_ = std::move(two).value();
            return out;
        }
        auto one = codec::ec::BlockCoder::create(model, chain, bits.base);
        if (!one.ok()) return one.error();
        out.one_ = std::move(one).value();
        return out;
    }

    // Codes and decodes a block; the bytes that it took.
    size_t through(uint32_t tokens, const codec::ec::BlockCoder::Rows& read,
                   const codec::ec::BlockCoder::Rows& landed) const {
        std::vector<std::byte> bytes, more;
        Status back;
        if (two_) {
            codec::ec::LayeredScratch scratch;
            two_->encode(tokens, read, &scratch, &bytes, &more);
            back = two_->decode(bytes, more, tokens, landed, &scratch);
        } else {
            codec::ec::BlockScratch scratch;
            one_->encode(tokens, read, &scratch, &bytes);
            back = one_->decode(bytes, tokens, landed, &scratch);
        }
        QUIRE_CHECK(back.ok(), "ec cannot read what it wrote");
        return bytes.size() + more.size();
    }

 private:
    std::optional<codec::ec::BlockCoder> one_;
    std::optional<codec::ec::LayeredCoder> two_;
};

class Ec final : public Candidate {
 public:
    Ec(std::string name, std::shared_ptr<const ModelMeans> means, std::vector<ChainCoder> chains,
       std::vector<std::vector<uint16_t>> layers, double bits)
        : name_(std::move(name)),
          means_(std::move(means)),
          chains_(std::move(chains)),
          layers_(std::move(layers)),
          wanted_(bits) {}

    std::string name() const override { return name_; }
    // As stored; before anything was, as asked for.
    double bits(uint32_t) const override {
        const uint64_t numbers = numbers_.load();
        return numbers > 0 ? 8.0 * static_cast<double>(bytes_.load()) / static_cast<double>(numbers)
                           : wanted_;
    }

    // A head has no bytes of its own.
    void apply(const KvSpan&) const override { QUIRE_CHECK(false, "ec codes whole chains"); }

    void apply_all(std::span<const KvSpan> spans) const override {
        if (spans.empty()) return;
        for (size_t chain = 0; chain < chains_.size(); ++chain) apply_chain(chain, spans);
    }

 private:
    void apply_chain(size_t chain, std::span<const KvSpan> spans) const {
        std::vector<std::vector<const KvSpan*>> heads(layers_[chain].size());
        for (const KvSpan& s : spans) {
            const auto layer = std::ranges::find(layers_[chain], s.layer);
            if (layer != layers_[chain].end())
                heads[static_cast<size_t>(layer - layers_[chain].begin())].push_back(&s);
        }
        QUIRE_CHECK(std::ranges::none_of(heads, [](const auto& h) { return h.empty(); }),
                    "ec codes whole chains");
        const uint32_t tokens = spans[0].tokens;
        for (uint32_t first = 0; first < tokens; first += kTokens)
            apply_block(chains_[chain], heads, first, std::min(tokens - first, kTokens));
    }

    void apply_block(const ChainCoder& coder, const std::vector<std::vector<const KvSpan*>>& heads,
                     uint32_t first, uint32_t tokens) const {
        const auto rows_of = [&](const KvSpan& s, float* side) {
            return std::span(side + size_t{first} * s.head_dim, size_t{tokens} * s.head_dim);
        };
        const auto each = [&](uint32_t layer, const auto& f) {
            for (size_t h = 0; h < heads[layer].size(); ++h) f(*heads[layer][h], h);
        };
        const auto turn = [&](const KvSpan& s, Turn way, std::span<float> k) {
            means_->turn(s.layer, s.first + first, s.first + first + tokens, way, k.data());
        };
        for (uint32_t layer = 0; layer < heads.size(); ++layer)
            each(layer, [&](const KvSpan& s, size_t) {
                turn(s, Turn::back, rows_of(s, s.k));
                numbers_ += 2 * rows_of(s, s.k).size();
            });
        bytes_ += coder.through(
            tokens,
            [&](uint32_t layer, const codec::ec::LayerRows& rows) {
                each(layer, [&](const KvSpan& s, size_t h) {
                    const auto k = rows_of(s, s.k), v = rows_of(s, s.v);
                    std::ranges::copy(k, rows.k.begin() + static_cast<int64_t>(h * k.size()));
                    std::ranges::copy(v, rows.v.begin() + static_cast<int64_t>(h * v.size()));
                });
            },
            [&](uint32_t layer, const codec::ec::LayerRows& rows) {
                each(layer, [&](const KvSpan& s, size_t h) {
                    const auto k = rows_of(s, s.k), v = rows_of(s, s.v);
                    std::ranges::copy(rows.k.subspan(h * k.size(), k.size()), k.begin());
                    std::ranges::copy(rows.v.subspan(h * v.size(), v.size()), v.begin());
                    turn(s, Turn::forward, k);
                });
            });
    }

    std::string name_;
    std::shared_ptr<const ModelMeans> means_;
    std::vector<ChainCoder> chains_;
    std::vector<std::vector<uint16_t>> layers_;
    double wanted_;
    mutable std::atomic<uint64_t> bytes_ = 0;
    mutable std::atomic<uint64_t> numbers_ = 0;
};

}  // namespace

std::optional<EcBits> ec_bits(const std::string& name) {
    if (!name.starts_with(kEcPrefix)) return std::nullopt;
    EcBits bits{.alone = name.ends_with(kEcAlone)};
    const char* at = name.data() + kEcPrefix.size();
    const char* end = name.data() + name.size() - (bits.alone ? kEcAlone.size() : 0);
    for (double* part : {&bits.base, &bits.more}) {
        const auto [next, error] = std::from_chars(at, end, *part);
        if (error != std::errc() || !(*part >= kEcBitsMin && *part <= kEcBitsMax))
            return std::nullopt;
        if (next == end) return bits;
        if (*next != '+') return std::nullopt;
        at = next + 1;
    }
    return std::nullopt;
}

Result<std::vector<std::unique_ptr<Candidate>>> ec_candidates(
    const GgufModel& model, const codec::Sidecar& sidecar, const std::vector<std::string>& names,
    const std::vector<uint32_t>& skip) {
    auto learned = codec::ec::Model::of(sidecar);
    if (!learned.ok()) return learned.error();
    auto means = ModelMeans::from(model, sidecar);
    if (!means.ok()) return means.error();
    const auto shared = std::make_shared<const ModelMeans>(std::move(means).value());
    Chains layers = codec::ec::chains_of(sidecar.layers);
    for (std::vector<uint16_t>& chain : layers)
        std::erase_if(chain,
                      [&](uint16_t layer) { return std::ranges::find(skip, layer) != skip.end(); });
    std::erase_if(layers, [](const auto& chain) { return chain.empty(); });
    std::vector<std::unique_ptr<Candidate>> out;
    for (const std::string& name : names) {
        const EcBits bits = ec_bits(name).value_or(EcBits{kEcBitsMax, 0});
        std::vector<ChainCoder> chains;
        const codec::ec::Model own = learned->within(bits.alone ? Chains{} : layers);
        for (const std::vector<uint16_t>& chain : layers) {
            auto coder = ChainCoder::create(own, chain, bits);
            if (!coder.ok())
                return make_error(coder.code(), name + ": " + coder.error().message);
            chains.push_back(std::move(coder).value());
        }
        auto ec =
            std::make_unique<Ec>(name, shared, std::move(chains), layers, bits.base + bits.more);
        if (skip.empty())
            out.push_back(std::move(ec));
        else
            out.push_back(skipping_candidate(std::move(ec), skip));
    }
    return out;
}

}  // namespace quire::bench
