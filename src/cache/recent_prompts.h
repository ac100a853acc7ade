// The last prompts seen, to say where a new one departs from them. For explanations only.
//
// Bounded by prompts and by tokens; the oldest leaves first. Prompts are kept apart by chain root,
// so a comparison never crosses a tenant or a salt. A separate table remembers, for the first block
// of text alone, which namespace used it last, so that "same text, other salt" can be told. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/chain.h"
#include "core/types.h"

namespace quire {

class RecentPrompts {
 public:
    RecentPrompts(uint32_t max_prompts, uint64_t max_tokens)
        : max_prompts_(max_prompts), max_tokens_(max_tokens) {}

    void add(const PrefixHash& root, const Namespace& ns, TokenSpan prompt, uint32_t block_tokens);

    struct Difference {
        uint32_t token = 0;    // index of the first token that differs
        TokenId expected = 0;  // what the nearest cached prompt has there
        TokenId actual = 0;
    };
    // The nearest prompt under the same root and where `prompt` departs from it; nothing when no
    // prompt shares a token or one is a prefix of the other.
    std::optional<Difference> nearest(const PrefixHash& root, TokenSpan prompt) const;

    enum class Seen : uint8_t { no, same, other_salt, other_tenant };
    // Which namespace last used the same first block of text.
    Seen first_block_seen(const Namespace& ns, TokenSpan prompt, uint32_t block_tokens) const;

 private:
    struct Prompt {
        PrefixHash root;
        std::vector<TokenId> tokens;
    };
    struct Owner {
        std::string tenant;
        std::string salt;
    };
    static uint64_t text_hash(TokenSpan prompt, uint32_t block_tokens);

    uint32_t max_prompts_;
    uint64_t max_tokens_;
    uint64_t total_tokens_ = 0;
    std::deque<Prompt> prompts_;
    std::unordered_map<uint64_t, Owner> owners_;
    std::deque<uint64_t> owner_order_;
};

}  // namespace quire
