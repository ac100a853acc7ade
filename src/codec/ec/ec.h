// ec: rows as entropy-coded transform coefficients, for cold tiers and transfers: what it has to
// know of a model. block.h codes with it.
//
// Keys are coded as they were before RoPE (whoever calls turns them back and forth), values as they
// are. What was not expected of a row is turned into its principal components, each is divided by
// one step and rounded, and the integers go through rANS with static tables that the spread of the
// component chooses. README.md has formulas and bytes. What was learned from text is in the model's
// sidecar.
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
inline constexpr int kLowestOctave = -5;
inline constexpr double kLowestClass = kLowestOctave;

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
    std::vector<float> spreads;     // [head_dim], of a row along each component
    std::vector<float> deviations;  // [head_dim], the same of what is left after prediction
    // [inputs][head_dim]: a row's components are expected to be as many components, those decoded
    // last, times these; empty: 0. Decoded before are layers of the same kind and window, and of
    // the same layer earlier heads, keys before values.
    std::vector<float> weights;
};

// All that a model's sidecar holds for ec.
struct Model {
    std::vector<ClassModel> classes;           // [kClasses]
    std::vector<std::vector<HeadModel>> k, v;  // [layer][head]
    std::vector<SidecarLayer> layers;          // their shapes; of() fills them in

    // Means are the sidecar's; the rest is one section of it.
    void store(Sidecar* sidecar) const;
    // corrupt, or miss when the sidecar has no such section.
    static Result<Model> of(const Sidecar& sidecar);

    // The same for layers that are stored apart from each other: a head keeps its prediction where
    // all that foretells it is in its own chain, which lists model layers. With empty chains none
    // does.
    Model within(std::span<const std::vector<uint16_t>> chains) const;
};
inline constexpr uint32_t kTag = sidecar_tag("ECv4");

// What steps and bits have to do with each other. Immutable; any thread.
class Coder {
 public:
    explicit Coder(const Model& model);

    // The mean of bits a number, over all heads, with steps `step` times the relative ones.
    double bits(double step) const;
    // The step that takes `bits` a number; the finest one for more than steps can give.
    double step_for(double bits) const;
    // Those that step_for() can return: from where the widest component has the highest class to
    // where all numbers become zeros.
    struct Range {
        double low;
        double high;
    };
    Range steps() const;

 private:
    const Model& model_;
    std::vector<RansTable> tables_;  // [kClasses]
};

}  // namespace quire::codec::ec
