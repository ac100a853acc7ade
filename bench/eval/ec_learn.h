// What the codec ec (src/codec/ec) has to know of a model, learned from the pages of a text.
#pragma once

#include <cstdint>

#include "bench/eval/kv_pages.h"
#include "bench/eval/means.h"
#include "codec/ec/ec.h"
#include "codec/sidecar.h"

namespace quire::bench {

// `means` and, for the steps, the sensitivity of `sidecar` (without: steps follow the deviation)
// are those that the model's sidecar has.
codec::ec::Model learn_ec(const KvPages& pages, uint32_t tokens, const ModelMeans& means,
                          const codec::Sidecar& sidecar);

}  // namespace quire::bench
