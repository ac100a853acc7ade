// What a cascade consists of. Host code.
#pragma once

#include <algorithm>

#include "kernels/cuda/attn/cascade.h"
#include "kernels/cuda/attn/merge_states.h"
#include "kernels/cuda/attn/prefill.h"

namespace quire::kernels::cuda {

struct CascadePlan {
    PrefillParams prefix;
    DecodeParams own;
    MergeParams merge;
    float* lse = nullptr;  // [2][rows], of prefixes and of own keys
    int64_t rows = 0;
    size_t bytes = 0;  // of the workspace
};

inline PrefillParams prefix_of(const CascadeParams& c) {
    const DecodeParams& d = c.own;
    PrefillParams p;
    p.q = d.q;
    p.q_token_stride = d.q_token_stride;
    p.q_head_stride = d.q_head_stride;
    p.out_head_stride = d.head_dim;
    p.out_token_stride = int64_t{d.head_dim} * d.n_heads;
    p.element = d.element;
    p.n_requests = c.n_groups;
    p.n_tokens = d.n_requests * d.n_queries;
    p.first_tokens = c.first_requests;
    p.tokens_each = d.n_queries;
    p.causal = false;
    p.n_heads = d.n_heads;
    p.kv_heads = d.kv_heads;
    p.head_dim = d.head_dim;
    p.block_tokens = d.block_tokens;
    p.scale = d.scale;
    p.softcap = d.softcap;
    p.lengths = c.prefix_lengths;
    p.blocks = c.prefix_blocks;
    p.table_stride = c.prefix_table_stride;
    p.pages = d.pages;
    p.block_stride = d.block_stride;
    p.head_stride = d.head_stride;
    p.pages_hold = d.pages_hold;
    p.k_bits = d.k_bits;
    p.v_bits = d.v_bits;
    p.v_mean = d.v_mean;
    return p;
}

// Own results come to `out`, where the prefix's are added.
inline MergeParams merge_of(const CascadePlan& plan, const CascadeParams& c) {
    const DecodeParams& own = c.own;
    MergeParams m;
    m.n_parts = 2;
    m.parts[0] = {plan.prefix.out, plan.lse, plan.prefix.out_token_stride,
                  plan.prefix.out_head_stride};
    m.parts[1] = {own.out, plan.own.lse, own.out_token_stride, own.out_head_stride};
    m.n_tokens = plan.prefix.n_tokens;
    m.n_heads = own.n_heads;
    m.head_dim = own.head_dim;
    m.parts_element = m.element = own.element;
    m.out = own.out;
    m.token_stride = own.out_token_stride;
    m.head_stride = own.out_head_stride;
    m.lse = own.lse;
    return m;
}

inline CascadePlan plan_cascade(const CascadeParams& c, int32_t blocks) {
    CascadePlan plan;
    plan.prefix = prefix_of(c);
    plan.own = c.own;
    plan.rows = int64_t{plan.prefix.n_tokens} * c.own.n_heads;
    const auto rows = static_cast<size_t>(plan.rows);
    auto* const memory = static_cast<std::byte*>(c.workspace);
    const auto take = [&](size_t bytes) {
        std::byte* at = memory == nullptr ? nullptr : memory + plan.bytes;
        plan.bytes += (bytes + 255) / 256 * 256;
        return at;
    };
    plan.prefix.workspace = take(prefill_workspace_bytes(plan.prefix, blocks));
    plan.own.workspace = take(decode_workspace_bytes(c.own, blocks));
    plan.prefix.out =
        take(rows * static_cast<size_t>(c.own.head_dim) * (c.own.element == Numbers::f32 ? 4 : 2));
    plan.lse = reinterpret_cast<float*>(take(2 * rows * sizeof(float)));
    plan.prefix.lse = plan.lse;
    plan.own.lse = plan.lse + plan.rows;
    plan.merge = merge_of(plan, c);
    return plan;
}

}  // namespace quire::kernels::cuda
