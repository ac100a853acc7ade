#include "bench/eval/ec_candidate.h"

#include <atomic>
#include <charconv>

#include "base/check.h"
#include "bench/eval/means.h"
#include "codec/ec/ec.h"

namespace quire::bench {
namespace {

constexpr std::string_view kPrefix = "ec:";
constexpr double kBitsMin = 0.5, kBitsMax = 8;

// What all candidates of a model share.
struct Shared {
    ModelMeans means;
    codec::ec::Model model;
    codec::ec::Coder coder;

    Shared(ModelMeans m, codec::ec::Model learned)
        : means(std::move(m)), model(std::move(learned)), coder(model) {}
    Shared(const Shared&) = delete;
};

class Ec final : public Candidate {
 public:
    Ec(std::string name, std::shared_ptr<const Shared> shared, double bits)
        : name_(std::move(name)),
          shared_(std::move(shared)),
          wanted_(bits),
          step_(shared_->coder.step_for(bits)) {}

    std::string name() const override { return name_; }
    // As stored; before anything was, as asked for.
    double bits(uint32_t) const override {
        const uint64_t numbers = numbers_.load();
        return numbers > 0 ? 8.0 * static_cast<double>(bytes_.load()) / static_cast<double>(numbers)
                           : wanted_;
    }

    void apply(const KvSpan& span) const override { apply_all({&span, 1}); }

    void apply_all(std::span<const KvSpan> spans) const override {
        codec::ec::Decoded decoded(spans.empty() ? 0 : spans[0].tokens);
        while (!spans.empty()) {
            size_t heads = 1;
            while (heads < spans.size() && spans[heads].layer == spans[0].layer) ++heads;
            code_layer(spans.first(heads), &decoded);
            spans = spans.subspan(heads);
        }
    }

 private:
    void code_layer(std::span<const KvSpan> spans, codec::ec::Decoded* decoded) const {
        const codec::ec::Model& model = shared_->model;
        for (const KvSpan& s : spans) {
            const auto way = [&](Turn turn) {
                shared_->means.turn(s.layer, s.first, s.first + s.tokens, turn, s.k);
            };
            way(Turn::back);
            code(model.k[s.layer][s.head], s.k, s.tokens, decoded);
            way(Turn::forward);
        }
        for (const KvSpan& s : spans) code(model.v[s.layer][s.head], s.v, s.tokens, decoded);
    }

    void code(const codec::ec::HeadModel& head, float* numbers, uint32_t tokens,
              codec::ec::Decoded* decoded) const {
        const std::span<float> rows(numbers, size_t{tokens} * head.head_dim);
        const std::vector<float> expected = decoded->expect(head);
        std::vector<std::byte> bytes;
        shared_->coder.encode(head, step_, rows, expected, &bytes);
        const bool back = shared_->coder.decode(head, step_, bytes, expected, rows);
        QUIRE_CHECK(back, "ec cannot read what it wrote");
        decoded->add(head, rows);
        bytes_ += bytes.size();
        numbers_ += rows.size();
    }

    std::string name_;
    std::shared_ptr<const Shared> shared_;
    double wanted_, step_;
    mutable std::atomic<uint64_t> bytes_ = 0;
    mutable std::atomic<uint64_t> numbers_ = 0;
};

}  // namespace

std::optional<double> ec_bits(const std::string& name) {
    if (!name.starts_with(kPrefix)) return std::nullopt;
    double bits = 0;
    const char* end = name.data() + name.size();
    const auto [at, error] = std::from_chars(name.data() + kPrefix.size(), end, bits);
    if (error != std::errc() || at != end || !(bits >= kBitsMin && bits <= kBitsMax))
        return std::nullopt;
    return bits;
}

Result<std::vector<std::unique_ptr<Candidate>>> ec_candidates(
    const GgufModel& model, const codec::Sidecar& sidecar, const std::vector<std::string>& names) {
    auto learned = codec::ec::Model::of(sidecar);
    if (!learned.ok()) return learned.error();
    auto means = ModelMeans::from(model, sidecar);
    if (!means.ok()) return means.error();
    const auto shared =
        std::make_shared<const Shared>(std::move(means).value(), std::move(learned).value());
    std::vector<std::unique_ptr<Candidate>> out;
    for (const std::string& name : names)
        out.push_back(std::make_unique<Ec>(name, shared, ec_bits(name).value_or(kBitsMax)));
    return out;
}

}  // namespace quire::bench
