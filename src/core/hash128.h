// A 128-bit digest and the three identities made of it. Plain values, comparable and hashable.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

namespace quire {

struct Hash128 {
    uint64_t hi = 0;
    uint64_t lo = 0;

    friend auto operator<=>(const Hash128&, const Hash128&) = default;
    bool is_zero() const { return hi == 0 && lo == 0; }
    std::string to_hex() const;  // 32 lower-case digits, hi first
};

// What changes KV bytes: weights, RoPE and attention hyper-parameters.
struct ModelId {
    Hash128 value;
    friend auto operator<=>(const ModelId&, const ModelId&) = default;
};

// A chain hash over (parent, token ids); the root mixes in ModelId and salt. See core/chain.h.
struct PrefixHash {
    Hash128 value;
    friend auto operator<=>(const PrefixHash&, const PrefixHash&) = default;
};

// The identity of a block's bytes: (ModelId, layout, group, codec, tenant, PrefixHash), versioned.
struct BlockKey {
    Hash128 value;
    friend auto operator<=>(const BlockKey&, const BlockKey&) = default;
};

// Digests are uniform already, so their low word is the table hash.
struct Hash128Hasher {
    size_t operator()(const Hash128& h) const { return static_cast<size_t>(h.lo); }
    size_t operator()(const PrefixHash& h) const { return static_cast<size_t>(h.value.lo); }
    size_t operator()(const BlockKey& h) const { return static_cast<size_t>(h.value.lo); }
};

}  // namespace quire
