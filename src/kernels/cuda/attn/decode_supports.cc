#include "codec/hot/layout.h"
#include "kernels/cuda/attn/launch.h"
#include "kernels/cuda/attn/workspace.h"
#include "kernels/cuda/page_check.h"

namespace quire::kernels::cuda {
namespace {

const char* check_numbers(const DecodeParams& p) {
    if (p.n_requests < 0) return "n_requests must not be negative";
    if (p.kv_heads < 1 || p.n_heads < 1 || p.n_heads % p.kv_heads != 0)
        return "n_heads must be a multiple of kv_heads";
    if (p.n_queries < 1 || int64_t{p.n_queries} * (p.n_heads / p.kv_heads) > kDecodeRowsMax)
        return "queries times heads of a KV head must be 1 to 512";
    if (p.window < 0 || !(p.softcap >= 0) || !(p.scale > 0))
        return "window and softcap must not be negative, scale must be positive";
    if (p.all_keys && p.window > 0) return "a window needs queries with positions of their own";
    if (is_fp8(p.pages_hold) && p.scaling == codec::fp8::Scaling::head && p.n_requests > 0 &&
        (p.k_scales == nullptr || p.v_scales == nullptr))
        return "k_scales and v_scales must be given";
    if (p.pages_hold != PagesHold::codes) return nullptr;
    if (p.k_bits < codec::hot::kMinBits || p.k_bits > codec::hot::kMaxBits ||
        p.v_bits < codec::hot::kMinBits || p.v_bits > codec::hot::kMaxBits)
        return "codes have 2 to 8 bits";
    return nullptr;
}

const char* check_shape(const DecodeParams& p) {
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
    return check_block_tokens(p.block_tokens);
}

int64_t page_bytes_of(const DecodeParams& p) {
    const int64_t numbers = int64_t{2} * p.head_dim * p.block_tokens;
    if (is_fp8(p.pages_hold))
        return numbers +
               (p.scaling == codec::fp8::Scaling::token ? int64_t{4} * p.block_tokens : 0);
    if (p.pages_hold != PagesHold::codes) return 2 * numbers;
    return static_cast<int64_t>(
        codec::hot::page_bytes({p.k_bits, p.v_bits, static_cast<uint32_t>(p.head_dim),
                                static_cast<uint32_t>(p.block_tokens)}));
}

}  // namespace

const char* decode_supports(const DecodeParams& p) {
    if (const char* why = check_numbers(p)) return why;
    if (const char* why = check_shape(p)) return why;
    if (p.n_requests == 0) return nullptr;
    if (p.q == nullptr || p.out == nullptr || p.lengths == nullptr || p.blocks == nullptr ||
        p.pages == nullptr || p.workspace == nullptr)
        return "q, out, lengths, blocks, pages and workspace must be given";
    if (!is_aligned(p.workspace, 128)) return "the workspace must be aligned to 128 bytes";
    const int64_t vector = p.element == Numbers::f32 ? 4 : 8;  // numbers
    if (!is_aligned(p.q, 16) || !is_aligned(p.out, 16) || p.q_token_stride % vector != 0 ||
        p.q_head_stride % vector != 0 || p.out_token_stride % vector != 0 ||
        p.out_head_stride % vector != 0)
        return "q and out must be aligned to 16 bytes, and so must their strides";
    if (const char* why = check_page_alignment(p.pages, p.block_stride, p.head_stride)) return why;
    const int64_t page = page_bytes_of(p);
    if (p.head_stride < page || p.block_stride < page) return "pages overlap";
    if (p.block_stride > UINT32_MAX) return "block_stride must be below 4 GiB";
    return nullptr;
}

size_t decode_workspace_bytes(const DecodeParams& p, int32_t blocks) {
    const int32_t tiles = row_tiles(p.head_dim, rows_of_head(p));
    const int32_t warps = with_pages(p, [&](auto pages) { return pages.warps(p.head_dim, tiles); });
    const int32_t workers = blocks * warps;
    return static_cast<size_t>(kDecodeHeadBytes) +
           static_cast<size_t>(decode_query_words(p, passes_of(p)) + decode_counters(p, workers)) *
               sizeof(int32_t) +
           static_cast<size_t>(2 * workers * partial_floats(kRowsOfTile * tiles, p.head_dim)) *
               sizeof(float);
}

}  // namespace quire::kernels::cuda
