#include <initializer_list>

#include "kernels/cuda/codec/rows_check.h"
#include "kernels/cuda/encode_floats.h"

namespace quire::kernels::cuda {

const char* encode_floats_supports(const EncodeFloatsParams& p) {
    using codec::fp8::Scaling;
    if (const char* why = check_head_dim(p.head_dim)) return why;
    if (const char* why = check_block_tokens(p.block_tokens)) return why;
    if (p.kv_heads < 1 || p.kv_heads > 65535) return "kv_heads must be 1 to 65535";
    if (p.n_tokens < 0) return "n_tokens must not be negative";
    const bool is_fp8 = p.pages_hold == PageFloats::e4m3 || p.pages_hold == PageFloats::e5m2;
    if (!is_fp8 && p.scaling != Scaling::one) return "16-bit floats have no scales";
    if (p.n_tokens == 0) return nullptr;
    if (p.slots == nullptr || p.pages == nullptr) return "slots and pages must be given";
    for (const FloatRows* rows : {&p.k, &p.v}) {
        if (rows->rows == nullptr) continue;
        if (p.scaling == Scaling::head && (rows->scales == nullptr || !is_aligned(rows->scales, 4)))
            return "scales of heads must be given";
        if (const char* why = check_rows(p, *rows)) return why;
    }
    const int64_t numbers = int64_t{2} * p.head_dim * p.block_tokens;
    return check_pages(
        p, numbers * (is_fp8 ? 1 : 2) + (p.scaling == Scaling::token ? 4 * p.block_tokens : 0));
}

}  // namespace quire::kernels::cuda
