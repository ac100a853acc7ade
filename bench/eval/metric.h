// What an error of a key or a value costs, so that a codec errs where it matters least.
//
// A key's error moves a logit by its product with the query; turned back to position 0, with
// queries anywhere, that is in the mean the query's energy in each pair of dimensions that RoPE
// turns. A value's error moves the layer's output by its product with the output projection.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/gguf_model.h"
#include "engine/model/query_observer.h"

namespace quire::bench {

// The cost of an error e is |root e|^2. Symmetric, as is its inverse; both [n][n].
struct Metric {
    std::vector<double> root, inverse;
    // The mean over directions of an error of length 1, times n.
    double trace() const;
};

// The mean square of queries in each dimension. RoPE leaves a pair's as it is.
class QueryEnergy final : public QueryObserver {
 public:
    explicit QueryEnergy(const GgufModel& model);
    void see(uint32_t layer, const kernels::AttnShape& shape,
             std::span<const kernels::AttnSequence> sequences) override;
    // [head_dim], of all queries that read the KV head; the same in both dimensions of a pair.
    std::vector<double> of(uint32_t layer, uint32_t kv_head) const;

 private:
    size_t sharing_, head_dim_;              // query heads of a KV head
    std::vector<std::vector<double>> sums_;  // [layer][heads x head_dim]
    std::vector<double> rows_;               // [layer]
    std::vector<uint32_t> partner_;          // [head_dim] the other one of the pair
};

struct LayerMetrics {
    std::vector<Metric> k, v;  // [heads]
};
// [layers]. Before `queries` saw any, keys' directions cost the same.
std::vector<LayerMetrics> metrics_of(const GgufModel& model, const QueryEnergy& queries);

// Of a matrix [n][n] that says the cost. A little of its mean diagonal is added: text that was not
// seen may use directions that it makes free.
Metric metric_of(std::vector<double> cost, size_t n);

}  // namespace quire::bench
