#include <initializer_list>

#include "codec/hot/layout.h"
#include "kernels/cuda/encode.h"
#include "kernels/cuda/page_check.h"

namespace quire::kernels::cuda {
namespace {

namespace hot = codec::hot;

const char* check_rows(const EncodeParams& p, const EncodeRows& rows) {
    if (rows.bits < hot::kMinBits || rows.bits > hot::kMaxBits) return "codes have 2 to 8 bits";
    if (rows.rows == nullptr) return nullptr;
    const uintptr_t size = p.element == Numbers::f32 ? 4 : 2;
    if (!is_aligned(rows.rows, size) || !is_aligned(rows.mean, 4))
        return "rows and means must be aligned to their numbers";
    // Heads in a row of tokens, or tokens in a row of heads.
    const int64_t heads = int64_t{p.kv_heads - 1} * rows.head_stride + p.head_dim;
    const int64_t tokens = int64_t{p.n_tokens - 1} * rows.token_stride + p.head_dim;
    const bool token_major = rows.head_stride >= p.head_dim && rows.token_stride >= heads;
    const bool head_major = rows.token_stride >= p.head_dim && rows.head_stride >= tokens;
    return token_major || head_major ? nullptr : "strides of rows overlap or are negative";
}

}  // namespace

const char* encode_supports(const EncodeParams& p) {
    switch (p.head_dim) {
        case 64:
        case 80:
        case 96:
        case 128:
        case 192:
        case 256:
            break;
        default:
            return "head_dim must be 64, 80, 96, 128, 192 or 256";
    }
    if (const char* why = check_block_tokens(p.block_tokens)) return why;
    if (p.kv_heads < 1 || p.kv_heads > 65535) return "kv_heads must be 1 to 65535";
    if (p.n_tokens < 0) return "n_tokens must not be negative";
    if (p.n_tokens == 0) return nullptr;
    if (p.slots == nullptr || p.pages == nullptr) return "slots and pages must be given";
    for (const EncodeRows* rows : {&p.k, &p.v})
        if (const char* why = check_rows(p, *rows)) return why;
    const auto page =
        static_cast<int64_t>(hot::page_bytes({p.k.bits, p.v.bits, static_cast<uint32_t>(p.head_dim),
                                              static_cast<uint32_t>(p.block_tokens)}));
    if (const char* why = check_page_alignment(p.pages, p.block_stride, p.head_stride)) return why;
    const bool block_major =
        p.head_stride >= page && p.block_stride >= (p.kv_heads - 1) * p.head_stride + page;
    const bool head_major =
        p.block_stride >= page && p.head_stride >= (p.n_blocks - 1) * p.block_stride + page;
    if (p.n_blocks < 1 || !(block_major || head_major)) return "pages overlap";
    return nullptr;
}

}  // namespace quire::kernels::cuda
