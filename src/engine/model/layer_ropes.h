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

    // RoPE's tables at positions [first, last), for all layers.
    class Tables {
     public:
        uint32_t tokens() const { return tokens_; }

     private:
        friend class LayerRopes;
        uint32_t tokens_ = 0;
        std::vector<std::vector<float>> kinds_;  // [ropes][tokens][2 pairs]
    };
    Tables tables(uint32_t first, uint32_t last) const;

    int32_t pairs() const { return ropes_.front().pairs(); }
    // RopeTable::fill's numbers of a layer at the t-th position of the tables.
    const float* table(const Tables& tables, uint32_t layer, uint32_t t) const {
        return tables.kinds_[layer_rope_[layer]].data() +
               size_t{t} * 2 * static_cast<size_t>(pairs());
    }
    // Keys [tables.tokens()][head_dim] of one head, in place.
    void turn(const Tables& tables, uint32_t layer, Turn way, float* rows) const;

 private:
    RopeStyle style_;
    size_t head_dim_;
    std::vector<RopeTable> ropes_;    // full, window
    std::vector<size_t> layer_rope_;  // [layers]
};

}  // namespace quire
