// For tests of evaluations: a tiny model with its means, tokens, and a candidate whose damage is
// chosen.
#pragma once

#include <functional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "bench/eval/candidate.h"
#include "bench/eval/means.h"
#include "engine/model/gguf_model.h"
#include "engine/model/tiny_model.h"

namespace quire::bench::testing {

inline std::vector<TokenId> random_tokens(size_t n, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<TokenId> tokens(n);
    const auto vocab = static_cast<uint32_t>(test::TinySpec{}.n_vocab);
    for (TokenId& t : tokens) t = static_cast<TokenId>(random() % vocab);
    return tokens;
}

struct TinyEvaluation {
    std::unique_ptr<GgufModel> model;
    std::unique_ptr<ModelMeans> means;
};

inline TinyEvaluation tiny_evaluation() {
    auto model = GgufModel::open(test::write_tiny_model({}).path);
    EXPECT_TRUE(model.ok());
    auto means = ModelMeans::learn(**model, random_tokens(64, 99), 1);
    EXPECT_TRUE(means.ok());
    return {std::move(model).value(), std::make_unique<ModelMeans>(std::move(means).value())};
}

// Scales the values of one layer, or of all; 1 does nothing. Remembers what it was given.
class Damage final : public Candidate {
 public:
    static constexpr uint32_t kAllLayers = ~0u;
    explicit Damage(float factor, uint32_t layer = kAllLayers) : factor_(factor), layer_(layer) {}
    std::string name() const override { return "damage"; }
    double bits(uint32_t) const override { return 16; }
    void apply(const KvSpan& span) const override {
        if (span.layer == 0 && span.head == 0) seen.emplace_back(span.first, span.tokens);
        if (layer_ != kAllLayers && span.layer != layer_) return;
        for (size_t i = 0; i < size_t{span.tokens} * span.head_dim; ++i) span.v[i] *= factor_;
    }
    mutable std::vector<std::pair<uint32_t, uint32_t>> seen;  // first, tokens; of one head

 private:
    float factor_;
    uint32_t layer_;
};

}  // namespace quire::bench::testing
