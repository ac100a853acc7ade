#include <initializer_list>

#include "codec/hot/layout.h"
#include "kernels/cuda/codec/rows_check.h"
#include "kernels/cuda/encode.h"

namespace quire::kernels::cuda {

namespace hot = codec::hot;

const char* encode_supports(const EncodeParams& p) {
    if (const char* why = check_head_dim(p.head_dim)) return why;
    if (const char* why = check_block_tokens(p.block_tokens)) return why;
    if (p.kv_heads < 1 || p.kv_heads > 65535) return "kv_heads must be 1 to 65535";
    if (p.n_tokens < 0) return "n_tokens must not be negative";
    if (p.n_tokens == 0) return nullptr;
    if (p.slots == nullptr || p.pages == nullptr) return "slots and pages must be given";
    for (const EncodeRows* rows : {&p.k, &p.v}) {
        if (rows->bits < hot::kMinBits || rows->bits > hot::kMaxBits)
            return "codes have 2 to 8 bits";
        if (rows->rows == nullptr) continue;
        if (!is_aligned(rows->mean, 4)) return "means must be aligned to their numbers";
        if (const char* why = check_rows(p, *rows)) return why;
    }
    return check_pages(
        p,
        static_cast<int64_t>(hot::page_bytes({p.k.bits, p.v.bits, static_cast<uint32_t>(p.head_dim),
                                              static_cast<uint32_t>(p.block_tokens)})));
}

}  // namespace quire::kernels::cuda
