#include "bench/eval/skipping.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace quire::bench {
namespace {

class Skipping final : public Candidate {
 public:
    Skipping(std::unique_ptr<Candidate> inner, std::vector<uint32_t> layers)
        : inner_(std::move(inner)), layers_(std::move(layers)) {}

    std::string name() const override {
        return inner_->name() + skipped_suffix(layers_);
    }
    // On what was applied so far.
    double bits(uint32_t head_dim) const override {
        const auto coded = static_cast<double>(coded_.load());
        const auto exact = static_cast<double>(exact_.load());
        const double inner = inner_->bits(head_dim);
        return coded + exact == 0 ? inner : (coded * inner + exact * 16) / (coded + exact);
    }
    Status fits(uint32_t head_dim) const override { return inner_->fits(head_dim); }
    Status use(const codec::Sidecar& sidecar) override { return inner_->use(sidecar); }

    void apply(const KvSpan& span) const override {
        apply_all({&span, 1});
    }
    void apply_all(std::span<const KvSpan> spans) const override {
        std::vector<KvSpan> some;
        for (const KvSpan& span : spans) {
            const bool skip = std::ranges::find(layers_, span.layer) != layers_.end();
            (skip ? exact_ : coded_) += uint64_t{span.tokens} * span.head_dim;
            if (!skip) some.push_back(span);
        }
        inner_->apply_all(some);
    }

 private:
    const std::unique_ptr<Candidate> inner_;
    const std::vector<uint32_t> layers_;
    mutable std::atomic<uint64_t> coded_ = 0, exact_ = 0;
};

}  // namespace

std::string skipped_suffix(const std::vector<uint32_t>& layers) {
    return layers.empty() ? "" : fmt::format(", layers {} exact", fmt::join(layers, "+"));
}

std::unique_ptr<Candidate> skipping_candidate(std::unique_ptr<Candidate> inner,
                                              std::vector<uint32_t> layers) {
    return std::make_unique<Skipping>(std::move(inner), std::move(layers));
}

}  // namespace quire::bench
