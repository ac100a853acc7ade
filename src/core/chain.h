// BlockChain: the hash chain that names every prefix of a token sequence.
//
// Block i covers tokens [i*B, (i+1)*B). Its PrefixHash is the first 128 bits of
//   SHA-256(parent PrefixHash || token ids, 4 bytes little-endian each),
// the parent as its two words hi and lo, 8 bytes little-endian each,
// where the parent of block 0 is root(model, tenant, salt), so that two tenants or two salts never
// share a hash. Pure, the same bytes on every machine, incremental as tokens arrive. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/hash128.h"
#include "core/kv_layout.h"
#include "core/types.h"

namespace quire {

// Who may share a block: requests of one tenant with the same salt.
struct Namespace {
    std::string_view tenant;  // empty: the only tenant
    std::string_view salt;    // the request's cache_salt; empty: none
};

PrefixHash chain_root(const ModelId& model, const Namespace& ns);
PrefixHash chain_next(const PrefixHash& parent, TokenSpan block_tokens);

// The identity of a block's bytes in every tier; versioned, so that a change of format is a miss.
// `scope` is key_scope() of everything that is constant per model, group, codec and tenant.
Hash128 key_scope(const ModelId& model, const Hash128& layout_digest, uint32_t group,
                  uint32_t codec, std::string_view tenant);
BlockKey block_key(const Hash128& scope, const PrefixHash& prefix);

class BlockChain {
 public:
    // REQUIRES: 1 <= block_tokens <= kMaxBlockTokens.
    BlockChain(PrefixHash root, uint32_t block_tokens);

    // Appends tokens and hashes each block that becomes full.
    void append(TokenSpan tokens);

    uint32_t block_tokens() const { return block_tokens_; }
    const PrefixHash& root() const { return root_; }
    TokenSpan tokens() const { return tokens_; }
    // Hashes of the full blocks, in order.
    std::span<const PrefixHash> blocks() const { return blocks_; }
    // Parent hash of block i: the root for i == 0.
    const PrefixHash& parent(size_t i) const { return i == 0 ? root_ : blocks_[i - 1]; }
    TokenSpan block(size_t i) const { return tokens().subspan(i * block_tokens_, block_tokens_); }

 private:
    PrefixHash root_;
    uint32_t block_tokens_;
    std::vector<TokenId> tokens_;
    std::vector<PrefixHash> blocks_;
};

}  // namespace quire
