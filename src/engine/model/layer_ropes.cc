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

LayerRopes::Tables LayerRopes::tables(uint32_t first, uint32_t last) const {
    Tables out;
    out.tokens_ = last - first;
    for (const RopeTable& rope : ropes_) {
        const size_t width = 2 * static_cast<size_t>(rope.pairs());
        std::vector<float>& kind = out.kinds_.emplace_back(out.tokens_ * width);
        for (uint32_t t = 0; t < out.tokens_; ++t)
            rope.fill(static_cast<int32_t>(first + t), kind.data() + t * width);
    }
    return out;
}

void LayerRopes::turn(const Tables& tables, uint32_t layer, Turn way, float* rows) const {
    const auto rotate = way == Turn::forward ? rope_rotate : rope_rotate_back;
    for (uint32_t t = 0; t < tables.tokens(); ++t, rows += head_dim_)
        rotate(style_, pairs(), table(tables, layer, t), rows);
}

}  // namespace quire
