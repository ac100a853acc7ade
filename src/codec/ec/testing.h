// A small model for ec's tests, and rows that are like it.
#pragma once

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "codec/ec/block.h"

namespace quire::codec::ec {

inline constexpr uint64_t kSeed = 11;
inline constexpr uint32_t kDim = 32;
inline constexpr float kMean = 2.5f;

// Tables of normal numbers for every class.
inline std::vector<ClassModel> normal_classes() {
    std::vector<ClassModel> classes(kClasses);
    for (uint32_t c = 0; c < kClasses; ++c) {
        const double deviation = std::exp2(kLowestClass + c / 4.0);  // in steps
        const auto below = [&](double x) { return 0.5 * std::erfc(-x / deviation / std::sqrt(2)); };
        std::array<double, kSymbols> counts;
        for (int32_t s = -kLargest; s <= kLargest; ++s)
            counts[static_cast<size_t>(s + kLargest)] =
                (s == kLargest ? 1 : below(s + 0.5)) - (s == -kLargest ? 0 : below(s - 0.5));
        classes[c].frequencies = RansTable::fit(counts);
    }
    return classes;
}

// Components along the axes, each narrower than the one before.
inline HeadModel small_head() {
    HeadModel head{.head_dim = kDim, .mean = std::vector<float>(kDim, kMean)};
    head.components.assign(kDim * kDim, 0);
    for (uint32_t i = 0; i < kDim; ++i) {
        head.components[i * kDim + i] = 1;
        head.deviations.push_back(std::exp2(3.0f - 0.25f * static_cast<float>(i)));
    }
    head.restore = head.components;
    head.spreads = head.deviations;
    return head;
}

// Layers of two heads, none foretold.
inline Model small_model(size_t layers) {
    Model model{.classes = normal_classes()};
    for (size_t l = 0; l < layers; ++l) {
        model.k.push_back({small_head(), small_head()});
        model.v.push_back({small_head(), small_head()});
        model.layers.push_back({KvKind::full, 2, kDim, 0});
    }
    return model;
}

// Each head of a layer but the first is foretold by the layer before.
inline Model foretold_model(size_t layers, float weight) {
    Model model = small_model(layers);
    for (size_t l = 1; l < layers; ++l)
        for (auto* side : {&model.k, &model.v})
            for (HeadModel& head : (*side)[l]) {
                const size_t heads = side == &model.k ? 4 : 6;
                head.weights.assign(heads * kDim * kDim, 0);
                // Of the layer before, the head in the same place.
                for (uint32_t d = 0; d < kDim; ++d)
                    head.weights[(size_t{d} + (heads - 4) * kDim) * kDim + (d + 1) % kDim] = weight;
            }
    return model;
}

// A block's rows, [layer][side][head][tokens][kDim].
using BlockRows = std::vector<std::array<std::vector<float>, 2>>;

inline BlockRows random_rows(size_t layers, uint32_t tokens, uint64_t seed = kSeed) {
    std::mt19937_64 rng(seed);
    std::normal_distribution<float> normal;
    const HeadModel head = small_head();
    BlockRows rows(layers);
    for (auto& layer : rows)
        for (std::vector<float>& side : layer)
            for (uint32_t i = 0; i < 2 * tokens * kDim; ++i)
                side.push_back(kMean + head.deviations[i % kDim] * normal(rng));
    return rows;
}

inline BlockCoder::Rows reads(const BlockRows& rows) {
    return [&rows](uint32_t layer, const LayerRows& into) {
        std::ranges::copy(rows[layer][0], into.k.begin());
        std::ranges::copy(rows[layer][1], into.v.begin());
    };
}
inline BlockCoder::Rows keeps(BlockRows* rows) {
    return [rows](uint32_t layer, const LayerRows& from) {
        rows->resize(std::max(rows->size(), size_t{layer} + 1));
        (*rows)[layer][0].assign(from.k.begin(), from.k.end());
        (*rows)[layer][1].assign(from.v.begin(), from.v.end());
    };
}

// Of the differences.
inline double mean_square(const BlockRows& a, const BlockRows& b) {
    double sum = 0, numbers = 0;
    for (size_t l = 0; l < a.size(); ++l)
        for (size_t s = 0; s < 2; ++s)
            for (size_t i = 0; i < a[l][s].size(); ++i, ++numbers)
                sum += std::pow(double{a[l][s][i]} - double{b[l][s][i]}, 2);
    return sum / numbers;
}

inline std::vector<uint16_t> whole_chain(const Model& model) {
    std::vector<uint16_t> chain;
    for (size_t l = 0; l < model.layers.size(); ++l) chain.push_back(static_cast<uint16_t>(l));
    return chain;
}

}  // namespace quire::codec::ec
