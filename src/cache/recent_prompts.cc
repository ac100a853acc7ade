#include "cache/recent_prompts.h"

#include <algorithm>

#include "base/hash.h"

namespace quire {
namespace {
constexpr size_t kMaxOwners = 1 << 14;
}

uint64_t RecentPrompts::text_hash(TokenSpan prompt, uint32_t block_tokens) {
    return xxh3_64(std::as_bytes(prompt.first(block_tokens)));
}

void RecentPrompts::add(const PrefixHash& root, const Namespace& ns, TokenSpan prompt,
                        uint32_t block_tokens) {
    if (prompt.size() < block_tokens || prompt.size() > max_tokens_) return;
    const uint64_t hash = text_hash(prompt, block_tokens);
    if (!owners_.contains(hash)) owner_order_.push_back(hash);
    owners_[hash] = {std::string(ns.tenant), std::string(ns.salt)};
    while (owner_order_.size() > kMaxOwners) {
        owners_.erase(owner_order_.front());
        owner_order_.pop_front();
    }
    prompts_.push_back({root, {prompt.begin(), prompt.end()}});
    total_tokens_ += prompt.size();
    while (prompts_.size() > max_prompts_ || total_tokens_ > max_tokens_) {
        total_tokens_ -= prompts_.front().tokens.size();
        prompts_.pop_front();
    }
}

std::optional<RecentPrompts::Difference> RecentPrompts::nearest(const PrefixHash& root,
                                                                TokenSpan prompt) const {
    size_t best = 0;
    std::optional<Difference> found;
    for (auto it = prompts_.rbegin(); it != prompts_.rend(); ++it) {
        if (it->root != root) continue;
        const size_t limit = std::min(prompt.size(), it->tokens.size());
        const size_t same = static_cast<size_t>(
            std::mismatch(prompt.begin(), prompt.begin() + static_cast<ptrdiff_t>(limit),
                          it->tokens.begin())
                .first -
            prompt.begin());
        if (same == limit || same <= best) continue;
        best = same;
        found = Difference{static_cast<uint32_t>(same), it->tokens[same], prompt[same]};
    }
    return found;
}

RecentPrompts::Seen RecentPrompts::first_block_seen(const Namespace& ns, TokenSpan prompt,
                                                    uint32_t block_tokens) const {
    if (prompt.size() < block_tokens) return Seen::no;
    const auto it = owners_.find(text_hash(prompt, block_tokens));
    if (it == owners_.end()) return Seen::no;
    if (it->second.tenant != ns.tenant) return Seen::other_tenant;
    return it->second.salt == ns.salt ? Seen::same : Seen::other_salt;
}

}  // namespace quire
