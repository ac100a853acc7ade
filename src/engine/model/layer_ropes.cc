#include "engine/model/layer_ropes.h"

namespace quire {

LayerRopes::LayerRopes(const GgufModel& model)
    : style_(model.hparams().family->rope),
      head_dim_(static_cast<size_t>(model.hparams().head_dim)) {
    const HParams& h = model.hparams();
    const float* factors = model.weights().rope_factors();
    ropes_.emplace_back(h.rope_dim, h.rope_base, h.rope_scale, factors);
    if (h.window_tokens > 0) ropes_.emplace_back(h.rope_dim, h.window_rope_base, 1.0, factors);
    layer_rope_.resize(static_cast<size_t>(h.n_layers));
    for (const KvGroup& group : model.kv_layout(16).groups)
        for (const uint16_t layer : group.layers)
            layer_rope_[layer] = group.kind == KvKind::window ? ropes_.size() - 1 : 0;
}

void LayerRopes::turn(uint32_t layer, uint32_t first, uint32_t last, Turn way, float* rows) const {
    const RopeTable& rope = of(layer);
    std::vector<float> table(2 * static_cast<size_t>(rope.pairs()));
    for (uint32_t t = first; t < last; ++t, rows += head_dim_) {
        rope.fill(static_cast<int32_t>(t), table.data());
        if (way == Turn::back)  // the same rotation with the sines turned round
            for (auto sine = table.begin() + rope.pairs(); sine != table.end(); ++sine)
                *sine = -*sine;
        rope_rotate(style_, rope.pairs(), table.data(), rows);
    }
}

}  // namespace quire
