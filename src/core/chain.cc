#include "core/chain.h"

#include <cstring>
#include <string>

#include "base/check.h"
#include "base/hash.h"

namespace quire {
namespace {

constexpr uint32_t kKeyVersion = 1;

// Length-prefixed, so that ("a", "bc") and ("ab", "c") differ.
void add_field(std::string& out, std::string_view field) {
    const auto length = static_cast<uint32_t>(field.size());
    out.append(reinterpret_cast<const char*>(&length), sizeof length);
    out.append(field);
}

template <typename T>
void add_value(std::string& out, const T& value) {
    add_field(out, {reinterpret_cast<const char*>(&value), sizeof value});
}

Hash128 digest(const std::string& bytes) {
    const Digest128 d = sha256_128(std::as_bytes(std::span(bytes)));
    return {d.hi, d.lo};
}

}  // namespace

PrefixHash chain_root(const ModelId& model, const Namespace& ns) {
    std::string bytes;
    add_field(bytes, "quire-chain-1");
    add_value(bytes, model.value);
    add_field(bytes, ns.tenant);
    add_field(bytes, ns.salt);
    return {digest(bytes)};
}

PrefixHash chain_next(const PrefixHash& parent, TokenSpan block_tokens) {
    std::byte buffer[sizeof(Hash128) + kMaxBlockTokens * sizeof(TokenId)];
    QUIRE_CHECK(block_tokens.size() <= kMaxBlockTokens, "block larger than any layout allows");
    std::memcpy(buffer, &parent.value, sizeof(Hash128));
    std::memcpy(buffer + sizeof(Hash128), block_tokens.data(), block_tokens.size_bytes());
    const Digest128 d = sha256_128({buffer, sizeof(Hash128) + block_tokens.size_bytes()});
    return {Hash128{d.hi, d.lo}};
}

Hash128 key_scope(const ModelId& model, const Hash128& layout_digest, uint32_t group,
                  uint32_t codec, std::string_view tenant) {
    std::string bytes;
    add_field(bytes, "quire-key");
    add_value(bytes, kKeyVersion);
    add_value(bytes, model.value);
    add_value(bytes, layout_digest);
    add_value(bytes, group);
    add_value(bytes, codec);
    add_field(bytes, tenant);
    return digest(bytes);
}

BlockKey block_key(const Hash128& scope, const PrefixHash& prefix) {
    // Both inputs are cryptographic digests, so a fast hash of the pair keeps them apart; the slab
    // header's tokens and parent are compared on every load all the same.
    const Hash128 pair[2] = {scope, prefix.value};
    const Digest128 d = xxh3_128(std::as_bytes(std::span(pair)));
    return {Hash128{d.hi, d.lo}};
}

BlockChain::BlockChain(PrefixHash root, uint32_t block_tokens)
    : root_(root), block_tokens_(block_tokens) {
    QUIRE_CHECK(block_tokens >= 1 && block_tokens <= kMaxBlockTokens, "block_tokens out of range");
}

void BlockChain::append(TokenSpan tokens) {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    while ((blocks_.size() + 1) * block_tokens_ <= tokens_.size()) {
        const size_t i = blocks_.size();
        blocks_.push_back(chain_next(parent(i), block(i)));
    }
}

}  // namespace quire
