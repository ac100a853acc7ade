// The pages of one sequence, in memory of its own, and, where they are 16 bit, their rows as
// float32.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/arena.h"
#include "base/result.h"
#include "bench/eval/exact_tokens.h"
#include "core/kv_layout.h"
#include "engine/model/forward.h"

namespace quire::bench {

// A forward that takes a span of one sequence at a time. `queries` sees them, `probe` what
// attention gives; both must outlive it and may be null.
Result<std::unique_ptr<Forward>> span_forward(const GgufModel& model, uint32_t threads,
                                              QueryObserver* queries = nullptr,
                                              AttentionProbe* probe = nullptr);

class KvPages;

// The pages of a text, computed with an exact cache. `computed` is told how many more tokens went
// through the model; may be empty. `queries` sees all of them, of the last layer some; may be null.
Result<KvPages> pages_of(const GgufModel& model, const std::vector<TokenId>& text, uint32_t threads,
                         const std::function<void(uint64_t)>& computed,
                         QueryObserver* queries = nullptr);

class KvPages {
 public:
    static Result<KvPages> create(const KvLayout& layout, uint32_t tokens);

    StepSequence sequence(TokenSpan tokens, int32_t first_pos, int32_t n_logit_rows) const;

    // One KV head of one layer of a group; tokens [first, last). `k` and `v` are [last - first]
    // [head_dim].
    struct Rows {
        size_t group = 0;
        size_t layer_in_group = 0;
        uint32_t head = 0;
        uint32_t first = 0;
        uint32_t last = 0;
    };
    void read(const Rows& rows, float* k, float* v) const;
    void write(const Rows& rows, const float* k, const float* v);

    const KvLayout& layout() const { return layout_; }
    std::span<std::byte> slab(size_t group, uint32_t block) {
        return {tables_[group][block], layout_.slab_bytes(group)};
    }

 private:
    uint16_t* page_of(const Rows& rows, uint32_t token) const;

    KvLayout layout_;
    Arena arena_;
    std::vector<std::vector<std::byte*>> tables_;  // [group][block]
};

// Every KV head, in the order of the model's layers.
std::vector<KvPages::Rows> rows_by_layer(const KvLayout& layout, uint32_t first, uint32_t last);

// Calls f(rows, group, k, v) for every KV head of every layer; k and v are buffers for the rows.
template <typename F>
void for_each_head(const KvLayout& layout, uint32_t first, uint32_t last, F f) {
    std::vector<float> k, v;
    for (size_t g = 0; g < layout.groups.size(); ++g) {
        const KvGroup& group = layout.groups[g];
        k.resize(size_t{last - first} * group.head_dim);
        v.resize(k.size());
        for (size_t i = 0; i < group.layers.size(); ++i)
            for (uint32_t head = 0; head < group.kv_heads; ++head)
                f(KvPages::Rows{g, i, head, first, last}, group, k, v);
    }
}

}  // namespace quire::bench
