#include "bench/eval/kv_pages.h"

#include <algorithm>

#include <ggml.h>

namespace quire::bench {

namespace {

// Of a span: the last layer attends for rows with logits only, and logits cost as much as layers.
constexpr uint32_t kObservedLogitRows = 8;

}  // namespace

Result<std::unique_ptr<Forward>> span_forward(const GgufModel& model, uint32_t threads,
                                              QueryObserver* queries, AttentionProbe* probe) {
    return Forward::create(model, {.n_threads = static_cast<int32_t>(threads),
                                   .max_rows = kSpanTokens,
                                   .max_sequences = 1,
                                   .max_logit_rows = kSpanTokens,
                                   .queries = queries,
                                   .probe = probe});
}

// A step without logits ends before the last layer's attention.
Result<KvPages> pages_of(const GgufModel& model, const std::vector<TokenId>& text, uint32_t threads,
                         const std::function<void(uint64_t)>& computed, QueryObserver* queries) {
    const auto n = static_cast<uint32_t>(text.size());
    auto pages = KvPages::create(model.kv_layout(16), n);
    if (!pages.ok()) return pages;
    auto forward = span_forward(model, threads, queries);
    if (!forward.ok()) return forward.error();
    for (uint32_t at = 0; at < n; at += kSpanTokens) {
        const uint32_t take = std::min(kSpanTokens, n - at);
        const uint32_t logit_rows = queries == nullptr ? 0 : std::min(take, kObservedLogitRows);
        const StepSequence s =
            pages->sequence(TokenSpan(text).subspan(at, take), static_cast<int32_t>(at),
                            static_cast<int32_t>(logit_rows));
        if (auto done = (*forward)->step({&s, 1}); !done.ok()) return done.error();
        if (computed) computed(take);
    }
    return pages;
}

Result<KvPages> KvPages::create(const KvLayout& layout, uint32_t tokens) {
    KvPages pages;
    pages.layout_ = layout;
    const size_t blocks = (tokens + layout.block_tokens - 1) / layout.block_tokens;
    size_t bytes = 0;
    for (size_t g = 0; g < layout.groups.size(); ++g) bytes += blocks * layout.slab_bytes(g);
    auto arena = Arena::create({.bytes = bytes, .what = "an evaluation's KV pages"});
    if (!arena.ok()) return arena.error();
    pages.arena_ = std::move(arena).value();
    std::byte* next = pages.arena_.data();
    for (size_t g = 0; g < layout.groups.size(); ++g) {
        auto& table = pages.tables_.emplace_back();
        for (size_t b = 0; b < blocks; ++b, next += layout.slab_bytes(g)) table.push_back(next);
    }
    return pages;
}

StepSequence KvPages::sequence(TokenSpan tokens, int32_t first_pos, int32_t n_logit_rows) const {
    StepSequence s{.tokens = tokens, .first_pos = first_pos, .n_logit_rows = n_logit_rows};
    for (size_t g = 0; g < tables_.size(); ++g) s.slabs[g] = tables_[g].data();
    return s;
}

uint16_t* KvPages::page_of(const Rows& rows, uint32_t token) const {
    std::byte* page = tables_[rows.group][token / layout_.block_tokens] +
                      layout_.layer_offset(rows.group, rows.layer_in_group) +
                      rows.head * layout_.page_bytes(rows.group);
    return reinterpret_cast<uint16_t*>(page);
}

// K is [head_dim][block_tokens], V [block_tokens][head_dim] behind it.
void KvPages::read(const Rows& rows, float* k, float* v) const {
    const uint32_t dims = layout_.groups[rows.group].head_dim;
    const uint32_t block = layout_.block_tokens;
    for (uint32_t t = rows.first; t < rows.last; ++t, k += dims, v += dims) {
        const uint16_t* page = page_of(rows, t);
        const uint32_t slot = t % block;
        for (uint32_t d = 0; d < dims; ++d) {
            k[d] = ggml_fp16_to_fp32(page[d * block + slot]);
            v[d] = ggml_fp16_to_fp32(page[(block + slot) * dims + d]);
        }
    }
}

void KvPages::write(const Rows& rows, const float* k, const float* v) {
    const uint32_t dims = layout_.groups[rows.group].head_dim;
    const uint32_t block = layout_.block_tokens;
    for (uint32_t t = rows.first; t < rows.last; ++t, k += dims, v += dims) {
        uint16_t* page = page_of(rows, t);
        const uint32_t slot = t % block;
        for (uint32_t d = 0; d < dims; ++d) {
            page[d * block + slot] = ggml_fp32_to_fp16(k[d]);
            page[(block + slot) * dims + d] = ggml_fp32_to_fp16(v[d]);
        }
    }
}

std::vector<KvPages::Rows> rows_by_layer(const KvLayout& layout, uint32_t first, uint32_t last) {
    std::vector<KvPages::Rows> all;
    for (size_t g = 0; g < layout.groups.size(); ++g)
        for (size_t i = 0; i < layout.groups[g].layers.size(); ++i)
            for (uint32_t head = 0; head < layout.groups[g].kv_heads; ++head)
                all.push_back({g, i, head, first, last});
    std::ranges::sort(all, {}, [&](const KvPages::Rows& r) {
        return std::pair(layout.groups[r.group].layers[r.layer_in_group], r.head);
    });
    return all;
}

}  // namespace quire::bench
