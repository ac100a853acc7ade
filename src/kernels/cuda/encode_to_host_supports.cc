#include "kernels/cuda/encode_to_host.h"

namespace quire::kernels::cuda {

const char* encode_to_host_supports(const EncodeToHostParams& params) {
    const EncodeParams& p = params.encode;
    if (const char* why = encode_supports(p)) return why;
    if (params.chunk_blocks < 1) return "chunk_blocks must be positive";
    if (p.n_tokens == 0) return nullptr;
    if (params.host_pages == nullptr) return "host_pages must be given";
    if (p.n_blocks < (p.n_tokens - 1) / p.block_tokens + 1)
        return "n_blocks has no room for tokens";
    return p.head_stride * p.kv_heads <= p.block_stride ? nullptr
                                                        : "heads of a block must lie together";
}

}  // namespace quire::kernels::cuda
