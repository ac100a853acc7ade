// What the codec ec (src/codec/ec) has to know of a model, learned from the pages of a text.
#pragma once

#include <cstdint>

#include "bench/eval/kv_pages.h"
#include "bench/eval/means.h"
#include "bench/eval/metric.h"
#include "codec/ec/ec.h"
#include "codec/sidecar.h"

namespace quire::bench {

// Each layer is predicted from the one before it in its chain (codec/ec/block.h) as that would be
// decoded at about `bits` a number: other rates work too, a little less well.
//
// `means` and, for the steps, the sensitivity of `sidecar` (without: steps follow the deviation)
// are those that the model's sidecar has; `metrics` say by layer and head what errors cost.
codec::ec::Model learn_ec(const KvPages& pages, uint32_t tokens, const ModelMeans& means,
                          const std::vector<LayerMetrics>& metrics, const codec::Sidecar& sidecar,
                          double bits);

}  // namespace quire::bench
