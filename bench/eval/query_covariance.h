// How a layer's queries vary, by the KV head that they read: what an error of a key costs.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/gguf_model.h"
#include "engine/model/query_observer.h"

namespace quire::bench {

// Sums of products of queries after RoPE, of every fourth row. `next` sees all of them as well; it
// may be null, and must outlive this.
class QueryCovariance final : public QueryObserver {
 public:
    explicit QueryCovariance(const GgufModel& model, QueryObserver* next = nullptr);
    void see(uint32_t layer, const kernels::AttnShape& shape,
             std::span<const kernels::AttnSequence> sequences) override;
    // [head_dim][head_dim], symmetric; zeros before anything was seen.
    std::vector<double> of(uint32_t layer, uint32_t kv_head) const;

 private:
    void add(const float* query, double* sums) const;

    QueryObserver* next_;
    size_t sharing_, head_dim_;  // query heads of a KV head
    size_t heads_;
    std::vector<std::vector<double>> sums_;  // [layer][KV head][head_dim][head_dim], lower halves
};

}  // namespace quire::bench
