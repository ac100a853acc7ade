// What kernels that write new rows into pages ask of both. Host code.
#pragma once

#include <cstdint>

#include "kernels/cuda/encode.h"
#include "kernels/cuda/page_check.h"

namespace quire::kernels::cuda {

constexpr const char* check_head_dim(int32_t n) {
    return n == 64 || n == 80 || n == 96 || n == 128 || n == 192 || n == 256
               ? nullptr
               : "head_dim must be 64, 80, 96, 128, 192 or 256";
}

// Heads in a row of tokens, or tokens in a row of heads. REQUIRES: Rows has rows, token_stride and
// head_stride; Params has n_tokens, kv_heads, head_dim and element.
template <class Params, class Rows>
const char* check_rows(const Params& p, const Rows& rows) {
    if (!is_aligned(rows.rows, p.element == Numbers::f32 ? 4 : 2))
        return "rows must be aligned to their numbers";
    const int64_t heads = int64_t{p.kv_heads - 1} * rows.head_stride + p.head_dim;
    const int64_t tokens = int64_t{p.n_tokens - 1} * rows.token_stride + p.head_dim;
    const bool token_major = rows.head_stride >= p.head_dim && rows.token_stride >= heads;
    const bool head_major = rows.token_stride >= p.head_dim && rows.head_stride >= tokens;
    return token_major || head_major ? nullptr : "strides of rows overlap or are negative";
}

template <class Params>
const char* check_pages(const Params& p, int64_t page_bytes) {
    if (const char* why = check_page_alignment(p.pages, p.block_stride, p.head_stride)) return why;
    const bool block_major = p.head_stride >= page_bytes &&
                             p.block_stride >= (p.kv_heads - 1) * p.head_stride + page_bytes;
    const bool head_major = p.block_stride >= page_bytes &&
                            p.head_stride >= (p.n_blocks - 1) * p.block_stride + page_bytes;
    return p.n_blocks >= 1 && (block_major || head_major) ? nullptr : "pages overlap";
}

}  // namespace quire::kernels::cuda
