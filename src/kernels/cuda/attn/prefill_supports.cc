#include "codec/hot/layout.h"
#include "kernels/cuda/attn/prefill_plan.h"
#include "kernels/cuda/page_check.h"

namespace quire::kernels::cuda {
namespace {

// What decode asks of pages, tables and numbers: of one query a request.
DecodeParams as_decode(const PrefillParams& p) {
    DecodeParams d;
    d.q = p.q;
    d.q_token_stride = p.q_token_stride;
    d.q_head_stride = p.q_head_stride;
    d.out = p.out;
    d.out_token_stride = p.out_token_stride;
    d.out_head_stride = p.out_head_stride;
    d.element = p.element;
    d.n_requests = p.n_requests;
    d.n_heads = p.n_heads;
    d.kv_heads = p.kv_heads;
    d.head_dim = p.head_dim;
    d.block_tokens = p.block_tokens;
    d.window = p.window;
    d.scale = p.scale;
    d.softcap = p.softcap;
    d.lengths = p.lengths;
    d.blocks = p.blocks;
    d.table_stride = p.table_stride;
    d.pages = p.pages;
    d.block_stride = p.block_stride;
    d.head_stride = p.head_stride;
    d.pages_hold = p.pages_hold;
    d.k_bits = p.k_bits;
    d.v_bits = p.v_bits;
    d.workspace = p.workspace;
    return d;
}

}  // namespace

const char* prefill_supports(const PrefillParams& p) {
    if (p.head_dim != 64 && p.head_dim != 96 && p.head_dim != 128 && p.head_dim != 256)
        return "head_dim must be 64, 96, 128 or 256";
    if (is_fp8(p.pages_hold)) return "pages must hold codes, f16 or bf16";
    if (const char* why = decode_supports(as_decode(p))) return why;
    if (p.n_tokens < 0 || p.tokens_each < 1)
        return "n_tokens must not be negative, tokens_each positive";
    if (int64_t{p.n_tokens} * (p.n_heads / p.kv_heads) > INT32_MAX / 2) return "too many rows";
    if (p.n_requests > 0 && p.first_tokens == nullptr) return "first_tokens must be given";
    if (!p.causal && p.window != 0) return "a window needs causal queries";
    return nullptr;
}

size_t prefill_workspace_bytes(const PrefillParams& p, int32_t blocks) {
    return static_cast<size_t>(kPrefillHeadBytes) +
           static_cast<size_t>(prefill_counters(p, blocks)) * sizeof(int32_t) +
           static_cast<size_t>(2 * blocks * prefill_partial_floats(p.head_dim)) * sizeof(float);
}

}  // namespace quire::kernels::cuda
