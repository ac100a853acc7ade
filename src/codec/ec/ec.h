// ec: rows of one KV head as entropy-coded transform coefficients, for cold tiers and transfers.
//
// Keys are coded as they were before RoPE (whoever calls turns them back and forth), values as they
// are. A row less its mean is turned into its principal components, each is divided by one step and
// rounded, and the integers go through rANS with static tables that the spread of the component
// chooses. README.md has formulas and bytes. What was learned from text is in the model's sidecar.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "codec/ec/rans.h"
#include "codec/sidecar.h"

namespace quire::codec::ec {

// Spread of a component over the step: classes are a quarter of an octave wide, from 2^-5 on.
inline constexpr uint32_t kClasses = 49;
inline constexpr double kLowestClass = -5;

uint32_t class_of(double deviation, double step);

// How integers of a class are distributed, and where in its interval a number lies on average.
struct ClassModel {
    RansTable::Frequencies frequencies;
    // Integers of size 1, and of size 2 and more, come back as so much less; in steps.
    float shrink_one = 0;
    float shrink_more = 0;
};

// One side of one KV head.
struct HeadModel {
    uint32_t head_dim = 0;
    float step = 1;                 // relative: of layers and sides to each other
    std::vector<float> mean;        // [head_dim]
    std::vector<float> components;  // [head_dim][head_dim], a row's product with each
    std::vector<float> restore;     // their inverse: what 1 of each component adds to a row
    std::vector<float> deviations;  // [head_dim], of a row along each component
    // [inputs][head_dim]: a row is expected to be its mean and as many numbers, those decoded last,
    // times these; empty: its mean. Components are those of what is left.
    std::vector<float> weights;
};

// All that a model's sidecar holds for ec.
struct Model {
    std::vector<ClassModel> classes;           // [kClasses]
    std::vector<std::vector<HeadModel>> k, v;  // [layer][head]

    // Means are the sidecar's; the rest is one section of it.
    void store(Sidecar* sidecar) const;
    // corrupt, or miss when the sidecar has no such section.
    static Result<Model> of(const Sidecar& sidecar);
};
inline constexpr uint32_t kTag = sidecar_tag("ECv3");

// What was decoded of some tokens so far: keys (before RoPE) and values less their means, head by
// head in the order of coding, the keys of a layer before its values.
class Decoded {
 public:
    explicit Decoded(size_t tokens) : rows_(tokens) {}
    // Rows [tokens][head_dim] of the next head.
    void add(const HeadModel& head, std::span<const float> rows);
    size_t width() const { return rows_.empty() ? 0 : rows_[0].size(); }
    // What the head's rows are expected to be, from as many of the last numbers of each token as
    // it has weights for: [tokens][head_dim]. Without weights, or with more than numbers: the mean.
    std::vector<float> expect(const HeadModel& head) const;

 private:
    std::vector<std::vector<float>> rows_;
};

// Tables that are ready to code with. Immutable; any thread.
class Coder {
 public:
    explicit Coder(const Model& model);

    // The mean of bits a number, over all heads, with steps `step` times the relative ones.
    double bits(double step) const;
    // The step that takes `bits` a number; the finest one for more than steps can give.
    double step_for(double bits) const;

    // `rows` [tokens][head_dim] as bytes, appended to `out`. A row with a number that is not finite
    // is coded as what was expected; returns how many there were.
    uint32_t encode(const HeadModel& head, double step, std::span<const float> rows,
                    std::span<const float> expected, std::vector<std::byte>* out) const;
    // Any bytes give some rows. Returns false when the bytes were not written for that many rows.
    bool decode(const HeadModel& head, double step, std::span<const std::byte> bytes,
                std::span<const float> expected, std::span<float> rows) const;

 private:
    const Model& model_;
    std::vector<RansTable> tables_;  // [kClasses]
};

}  // namespace quire::codec::ec
