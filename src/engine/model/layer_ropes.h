// Keys to what they were before RoPE, and back: each layer's own tables. Values; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/gguf_model.h"
#include "engine/model/rope.h"

namespace quire {

enum class Turn : uint8_t { back, forward };

class LayerRopes {
 public:
    explicit LayerRopes(const GgufModel& model);

    const RopeTable& of(uint32_t layer) const { return ropes_[layer_rope_[layer]]; }
    // Keys [last - first][head_dim] of one head at positions first to last - 1, in place.
    void turn(uint32_t layer, uint32_t first, uint32_t last, Turn way, float* rows) const;

 private:
    RopeStyle style_;
    size_t head_dim_;
    std::vector<RopeTable> ropes_;    // full, window
    std::vector<size_t> layer_rope_;  // [layers]
};

}  // namespace quire
