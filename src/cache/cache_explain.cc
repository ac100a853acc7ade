// Why a prompt hits or misses: for a lease's own record and for people who ask.
#include "cache/cache.h"

namespace quire {

// What becomes known about a block when it leaves G1. The ghost is asked only once no tier holds
// the block, so it names the last one that did.
void Cache::note_departure(const PrefixHash& hash, uint8_t held_below, uint8_t refused,
                           int64_t now_ns) {
    Ghost ghost{evict_reason_, Tier::g1, now_ns};
    for (size_t i = 0; i < tiers_.size(); ++i) {
        if (held_below >> i & 1)
            ghost = {MissReason::evicted, tiers_[i].tier, now_ns, true};
        else if ((refused >> i & 1) && ghost.reason == MissReason::evicted && !ghost.held_below)
            ghost = {MissReason::not_admitted, tiers_[i].tier, now_ns};
    }
    ghosts_.note(hash, ghost);
}

Cache::Why Cache::why_gone(const Ghost& ghost) const {
    const int64_t now = clock_.monotonic_ns();
    if (!ghost.held_below) return {ghost.reason, ghost.tier, now - ghost.at_ns, {}};
    for (const Lower& lower : tiers_)
        if (lower.tier == ghost.tier && lower.flushed_ns >= ghost.at_ns)
            return {MissReason::flushed, ghost.tier, now - lower.flushed_ns, {}};
    return {ghost.reason, ghost.tier, -1, {}};
}

void Cache::note_origins(const TierStore& store) {
    const Hash128 layout = options_.layout.digest();
    for (const SlabOrigin& origin : store.origins()) {
        const bool ours = origin.model == options_.model && origin.layout_digest == layout;
        const bool usable = origin.block_tokens >= 1 && origin.block_tokens <= kMaxBlockTokens;
        if (ours || !usable) continue;
        others_.insert(origin.codec == kCodecRaw16 ? others_.end() : others_.begin(), origin);
    }
}

// Whether a lower tier has the same tokens' KV, of the same tenant and salt, under another model or
// layout. A layout with codes has two origins, of its exact pages and of its codes; the latter
// comes first.
const SlabOrigin* Cache::held_by_other(const BlockChain& chain, const Namespace& ns,
                                       uint32_t block) const {
    const auto held_coded = [&](const SlabOrigin& origin, uint32_t codec, const PrefixHash& hash) {
        for (uint32_t g = 0; g < kMaxGroups; ++g) {
            const BlockKey key =
                block_key(key_scope(origin.model, origin.layout_digest, g, codec, ns.tenant), hash);
            uint8_t present = 0;
            for (const Lower& lower : tiers_) {
                lower.store->contains({&key, 1}, {&present, 1});
                if (present) return true;
            }
        }
        return false;
    };
    const auto held = [&](const SlabOrigin& origin, const PrefixHash& hash) {
        return held_coded(origin, origin.codec, hash) || held_coded(origin, kCodecRaw16, hash);
    };
    for (const SlabOrigin& origin : others_) {
        const uint32_t theirs = block * chain.block_tokens() / origin.block_tokens;
        const size_t tokens = size_t{theirs + 1} * origin.block_tokens;
        if (tokens > chain.tokens().size()) continue;
        BlockChain other(chain_root(origin.model, ns), origin.block_tokens);
        // Parents stay as long as their children: where the first block is not, none is.
        other.append(chain.tokens().first(origin.block_tokens));
        if (!held(origin, other.blocks()[0])) continue;
        other.append(chain.tokens().first(tokens).subspan(origin.block_tokens));
        if (held(origin, other.blocks()[theirs])) return &origin;
    }
    return nullptr;
}

// Why a prefix of `next` blocks cannot be taken.
Cache::Why Cache::why_missing(const BlockChain& chain, const Namespace& ns, const Survey& found,
                              uint32_t next) const {
    const uint32_t block = first_missing(options_.layout, found.sources, next - 1);
    if (const auto ghost = ghosts_.find(chain.blocks()[block])) return why_gone(*ghost);
    if (const SlabOrigin* other = held_by_other(chain, ns, block))
        return {MissReason::other_model, Tier::g3, -1, *other};
    if (block > 0) return {};
    switch (recent_.first_block_seen(ns, chain.tokens(), options_.layout.block_tokens)) {
        case RecentPrompts::Seen::other_salt:
            return {MissReason::other_salt, Tier::g1, -1, {}};
        case RecentPrompts::Seen::other_tenant:
            return {MissReason::other_tenant, Tier::g1, -1, {}};
        case RecentPrompts::Seen::same:
        case RecentPrompts::Seen::no:
            break;
    }
    return {};
}

void Cache::set_miss(Lease& held, const Survey& found, uint32_t use, uint32_t limit) {
    held.info.miss = MissReason::none;
    const uint32_t next = next_end(use, limit);
    if (next == use) return;
    const Why why = why_missing(held.chain, held.ns(), found, next);
    held.info.miss = why.reason;
    held.info.miss_tier = why.tier;
}

CacheExplanation Cache::explain(TokenSpan prompt, const Namespace& ns) {
    CacheExplanation answer;
    BlockChain chain(chain_root(options_.model, ns), options_.layout.block_tokens);
    chain.append(prompt);
    answer.prompt_blocks = static_cast<uint32_t>(chain.blocks().size());
    if (!options_.enabled) {
        answer.reason = MissReason::cache_off;
        return answer;
    }
    if (prompt.size() <= 1) return answer;
    const auto limit = static_cast<uint32_t>((prompt.size() - 1) / options_.layout.block_tokens);
    const Survey found = survey(chain, tenant_keys(std::string(ns.tenant)), limit);
    MissReason cut = MissReason::none;
    answer.hit_blocks = plan(found, static_cast<uint32_t>(prompt.size()), cut);
    for (uint32_t b = 0; b < answer.hit_blocks; ++b) {
        Tier slowest = Tier::g1;
        for (uint32_t g = 0; g < found.sources.size(); ++g) {
            const BlockRange needed =
                options_.layout.needed_blocks(g, answer.hit_blocks * options_.layout.block_tokens);
            if (needed.has(b)) slowest = std::max(slowest, tier_of(found.sources[g][b]));
        }
        ++answer.blocks_by_tier[static_cast<int>(slowest)];
    }
    const uint32_t next = next_end(answer.hit_blocks, limit);
    if (next == answer.hit_blocks) return answer;
    answer.reason = cut;
    if (cut == MissReason::none) {
        const Why why = why_missing(chain, ns, found, next);
        answer.reason = why.reason;
        answer.tier = why.tier;
        answer.ago_ns = why.ago_ns;
        answer.holder = why.holder.model;
        answer.holder_codec = why.holder.codec;
        answer.holder_block_tokens = why.holder.block_tokens;
    }
    if (const auto difference = recent_.nearest(chain.root(), prompt);
        difference && answer.reason == MissReason::never_seen) {
        answer.differs = true;
        answer.first_different_token = difference->token;
        answer.expected = difference->expected;
        answer.actual = difference->actual;
    }
    return answer;
}

}  // namespace quire
