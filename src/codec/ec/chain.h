// What a BlockCoder knows of its chain: the model's numbers as the kernels want them.
#pragma once

#include <span>
#include <vector>

#include "codec/ec/block.h"
#include "codec/ec/kernels.h"

namespace quire::codec::ec {

// How one earlier head foretells: weights of eight bits, the scales of its history in them.
struct Foretelling {
    uint32_t back = 0;  // heads before, in the order of coding
    uint32_t dims = 0;
    std::vector<int8_t> weights;
    std::vector<int32_t> offsets;
    std::vector<float> scales;
};

// One side of one head.
struct HeadPlan {
    uint32_t dims = 0;
    float step = 1;  // relative
    std::vector<float> mean, deviations;
    std::vector<float> components, restore;  // in panels: Product::matrix
    std::vector<float> inverse;              // of the size of each component; powers of two
    std::vector<Foretelling> foretold_by;    // the farthest first
    bool foretells = false;                  // a later head
    size_t first_component = 0;              // of the chain's

    HeadPlan() = default;
    explicit HeadPlan(const HeadModel& head);
};

// Classes of components at one step.
struct Rate {
    float step = 0;
    std::vector<uint8_t> classes;  // of every component of the chain
    // Layer by layer, components of the layer from its first on: those of one class together.
    std::vector<uint32_t> order;
};

struct BlockCoder::Chain {
    // Heads of a layer: keys and then as many values.
    struct Layer {
        uint32_t kv_heads = 0;
        uint32_t head_dim = 0;
        size_t first_head = 0;
        size_t first_component = 0;
        uint32_t components = 0;
    };
    std::vector<Layer> layers;
    std::vector<HeadPlan> heads;  // in the order of coding
    std::vector<RansTable> tables;
    std::vector<Shrink> shrinks;  // by class
    Rate rate;
    double step_low = 0, step_high = 0;  // steps that a block may have
    size_t components = 0;               // of all heads
    uint32_t dims_max = 0;
    uint32_t reach = 0;  // heads back, at most

    std::vector<uint16_t> numbers;       // 0 to dims_max - 1

    std::span<const uint16_t> all(const HeadPlan& head) const {
        return std::span(numbers).first(head.dims);
    }
    Rate rate_of(float step) const;
    // Of a head in columns of this stride.
    Components components_of(const HeadPlan& head, const Rate& rate, uint32_t stride) const;
    // Symbols of a layer.
    SymbolRows symbols_of(const Layer& layer, const Rate& rate, uint32_t tokens,
                          uint32_t stride) const;
};

// invalid, unsupported: BlockCoder::create.
Status check_chain(const Model& model, std::span<const uint16_t> chain);

}  // namespace quire::codec::ec
