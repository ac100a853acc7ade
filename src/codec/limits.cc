#include "codec/limits.h"

namespace quire::codec {

const char* common_limits(const Geometry& g) {
    if (g.head_dim == 0 || g.head_dim % 16 != 0 || g.head_dim > kMaxHeadDim)
        return "head_dim must be a multiple of 16 up to 1024";
    if (g.block_tokens == 0 || g.block_tokens % kGroupTokens != 0 ||
        g.block_tokens > kMaxBlockTokens)
        return "a block must have a multiple of 16 tokens, up to 256";
    if (g.kv_heads == 0 || g.kv_heads > kMaxKvHeads) return "there must be 1 to 1024 KV heads";
    return nullptr;
}

}  // namespace quire::codec
