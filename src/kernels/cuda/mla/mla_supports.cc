#include "codec/mla/rows.h"
#include "kernels/cuda/mla/launch.h"
#include "kernels/cuda/page_check.h"

namespace quire::kernels::cuda {
namespace {

int64_t block_bytes(const MlaParams& p) {
    switch (p.rows) {
        case MlaRows::bf16:
            return int64_t{1152} * p.block_tokens;
        case MlaRows::v32:
            return static_cast<int64_t>(codec::mla::kV32Bytes) * p.block_tokens;
        case MlaRows::v4:
            return static_cast<int64_t>(
                codec::mla::v4_block_bytes(static_cast<uint32_t>(p.block_tokens)));
    }
    return 0;
}

const char* check_shape(const MlaParams& p) {
    if (p.n_requests < 0) return "n_requests must not be negative";
    if (p.n_heads < 16 || p.n_heads > 128 || p.n_heads % 16 != 0)
        return "n_heads must be a multiple of 16, up to 128";
    if (p.n_queries < 1 || p.n_queries > 64) return "n_queries must be 1 to 64";
    if (!(p.scale > 0)) return "scale must be positive";
    if (p.rows != MlaRows::bf16 && p.rows != MlaRows::v32 && p.rows != MlaRows::v4)
        return "rows must be bf16, v32 or v4";
    if (p.out_element != Numbers::bf16 && p.out_element != Numbers::f32)
        return "out_element must be bf16 or f32";
    return check_block_tokens(p.block_tokens);
}

const char* check_pointers(const MlaParams& p) {
    if (p.q == nullptr || p.out == nullptr || p.lengths == nullptr || p.pages == nullptr ||
        p.workspace == nullptr)
        return "q, out, lengths, pages and workspace must be given";
    if (p.blocks == nullptr && p.lists == nullptr) return "blocks or lists must be given";
    if (p.lists != nullptr && p.n_queries != 1)
        return "with lists n_queries must be 1: another token is another request";
    if (!is_aligned(p.workspace, 128)) return "the workspace must be aligned to 128 bytes";
    if (!is_aligned(p.q, 16) || p.q_token_stride % 8 != 0 || p.q_head_stride % 8 != 0)
        return "q must be aligned to 16 bytes";
    if (!is_aligned(p.out, 16) || p.out_token_stride % 8 != 0 || p.out_head_stride % 8 != 0)
        return "out must be aligned to 16 bytes";
    if (!is_aligned(p.pages, 16) || p.block_stride % 16 != 0)
        return "pages must be aligned to 16 bytes";
    return nullptr;
}

}  // namespace

const char* mla_supports(const MlaParams& p) {
    if (const char* why = check_shape(p)) return why;
    if (p.n_requests == 0) return nullptr;
    if (const char* why = check_pointers(p)) return why;
    if (p.n_blocks < 1) return "n_blocks must be positive";
    if (p.block_stride < block_bytes(p)) return "blocks overlap";
    return nullptr;
}

size_t mla_workspace_bytes(const MlaParams& p, int32_t workers) {
    return static_cast<size_t>(mla_counters(p)) * sizeof(int32_t) +
           static_cast<size_t>(2 * workers * kMlaPartialFloats) * sizeof(float);
}

}  // namespace quire::kernels::cuda
