// What the codecs that turn rows first (src/codec/i2c, src/codec/split) have to know of a model,
// learned from the pages of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/eval/kv_pages.h"
#include "bench/eval/means.h"
#include "bench/eval/metric.h"
#include "bench/eval/query_covariance.h"
#include "codec/i2c/section.h"
#include "codec/split/section.h"

namespace quire::bench {

struct RowMaps {
    codec::i2c::Matrices matrices;
    codec::split::Orders orders;
};
// `metrics` say by layer and head what errors of values cost, `queries` those of keys.
RowMaps learn_row_maps(const KvPages& pages, uint32_t tokens, const ModelMeans& means,
                       const std::vector<LayerMetrics>& metrics, const QueryCovariance& queries);

// A matrix, [n][n] as RowMap has them, after which the same bits for all components cost least: for
// rows of that covariance, and errors e that cost e' cost e. `power` tempers how far it stretches:
// with 0 it only turns. Components are the principal ones after stretching. Both inputs are
// regularised.
struct TurnPair {
    std::vector<float> forward, back;
};
TurnPair best_turn(std::vector<double> covariance, std::vector<double> cost, double power,
                   size_t n);

// Where best_turn() put its components, those that vary most first.
std::vector<uint16_t> turned_order(size_t n);

}  // namespace quire::bench
