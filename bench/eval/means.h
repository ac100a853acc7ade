// The constant part of keys and values: most of a key's energy before RoPE is one vector per layer
// and KV head.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "bench/eval/candidate.h"
#include "core/types.h"
#include "engine/model/gguf_model.h"
#include "engine/model/rope.h"

namespace quire::bench {

class ModelMeans {
 public:
    // From the pages of a text that is computed with an exact cache.
    static Result<ModelMeans> learn(const GgufModel& model, const std::vector<TokenId>& text,
                                    uint32_t threads);

    const HeadMeans& of(uint32_t layer, uint32_t head) const { return heads_[layer][head]; }
    // [last - first][head_dim] the mean before RoPE, rotated to each position.
    void rotate(uint32_t layer, uint32_t head, uint32_t first, uint32_t last,
                std::vector<float>* out) const;

 private:
    explicit ModelMeans(const GgufModel& model);
    const RopeTable& rope_of(uint32_t layer) const { return ropes_[layer_rope_[layer]]; }

    RopeStyle style_;
    std::vector<RopeTable> ropes_;    // full, window
    std::vector<size_t> layer_rope_;  // [layers]
    std::vector<std::vector<HeadMeans>> heads_;
};

}  // namespace quire::bench
