#include "bench/eval/kv_pages.h"

#include <ggml.h>

namespace quire::bench {

Result<std::unique_ptr<Forward>> span_forward(const GgufModel& model, uint32_t threads) {
    return Forward::create(model, {.n_threads = static_cast<int32_t>(threads),
                                   .max_rows = kSpanTokens,
                                   .max_sequences = 1,
                                   .max_logit_rows = kSpanTokens});
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

}  // namespace quire::bench
