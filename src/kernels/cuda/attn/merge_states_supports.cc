#include "kernels/cuda/attn/merge_states.h"
#include "kernels/cuda/page_check.h"

namespace quire::kernels::cuda {
namespace {

bool is_aligned_rows(const void* rows, int64_t token_stride, int64_t head_stride, Numbers element) {
    const int64_t vector = element == Numbers::f32 ? 4 : 8;  // numbers
    return is_aligned(rows, 16) && token_stride % vector == 0 && head_stride % vector == 0;
}

}  // namespace

const char* merge_states_supports(const MergeParams& p) {
    if (p.n_parts < 1 || p.n_parts > kMergePartsMax) return "n_parts must be 1 to 8";
    if (p.n_tokens < 0 || p.n_heads < 1) return "n_tokens must not be negative, n_heads positive";
    if (p.head_dim < 8 || p.head_dim % 8 != 0 || p.head_dim > 1024)
        return "head_dim must be a multiple of 8, up to 1024";
    if (int64_t{p.n_tokens} * p.n_heads > INT32_MAX / 2) return "too many rows";
    if (p.n_tokens == 0) return nullptr;
    if (p.out == nullptr) return "out must be given";
    if (!is_aligned_rows(p.out, p.token_stride, p.head_stride, p.element))
        return "out must be aligned to 16 bytes, and so must its strides";
    for (int32_t i = 0; i < p.n_parts; ++i) {
        const MergePart& part = p.parts[i];
        if (part.out == nullptr || part.lse == nullptr) return "every part has out and lse";
        if (!is_aligned_rows(part.out, part.token_stride, part.head_stride, p.parts_element))
            return "parts must be aligned to 16 bytes, and so must their strides";
    }
    return nullptr;
}

}  // namespace quire::kernels::cuda
