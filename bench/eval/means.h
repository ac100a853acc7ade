// The constant part of keys and values: most of a key's energy before RoPE is one vector per layer
// and KV head.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "bench/eval/candidate.h"
#include "bench/eval/kv_pages.h"
#include "codec/sidecar.h"
#include "core/types.h"
#include "engine/model/gguf_model.h"
#include "engine/model/layer_ropes.h"

namespace quire::bench {

class ModelMeans {
 public:
    // From the pages of a text that is computed with an exact cache. `computed` is told how many
    // more tokens went through the model; may be empty.
    static Result<ModelMeans> learn(const GgufModel& model, const std::vector<TokenId>& text,
                                    uint32_t threads,
                                    const std::function<void(uint64_t)>& computed = {});
    // From the pages of [0, tokens) of a text.
    static ModelMeans learn(const GgufModel& model, const KvPages& pages, uint32_t tokens);
    // From a sidecar that matches the model. invalid: it has no means.
    static Result<ModelMeans> from(const GgufModel& model, const codec::Sidecar& sidecar);

    // Into a sidecar of the same model.
    void store(codec::Sidecar* sidecar) const;

    const HeadMeans& of(uint32_t layer, uint32_t head) const { return heads_[layer][head]; }
    // [last - first][head_dim] the mean before RoPE, rotated to each position.
    void rotate(uint32_t layer, uint32_t head, uint32_t first, uint32_t last,
                std::vector<float>* out) const;
    // Keys [last - first][head_dim] at positions first to last - 1, to what they were before RoPE
    // or from there; in place.
    void turn(uint32_t layer, uint32_t first, uint32_t last, Turn way, float* rows) const {
        ropes_.turn(ropes_.tables(first, last), layer, way, rows);
    }

 private:
    explicit ModelMeans(const GgufModel& model);

    LayerRopes ropes_;
    std::vector<std::vector<HeadMeans>> heads_;
};

}  // namespace quire::bench
