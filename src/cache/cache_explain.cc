// Why a prompt hits or misses: for a lease's own record and for people who ask.
#include "cache/cache.h"

namespace quire {

MissReason Cache::why_missing(const BlockChain& chain, const Namespace& ns, uint32_t block,
                              Tier& tier, int64_t& ago_ns) const {
    if (const auto ghost = ghosts_.find(chain.blocks()[block])) {
        tier = ghost->tier;
        ago_ns = clock_.monotonic_ns() - ghost->at_ns;
        return ghost->reason;
    }
    if (block > 0) return MissReason::never_seen;
    switch (recent_.first_block_seen(ns, chain.tokens(), options_.layout.block_tokens)) {
        case RecentPrompts::Seen::other_salt:
            return MissReason::other_salt;
        case RecentPrompts::Seen::other_tenant:
            return MissReason::other_tenant;
        case RecentPrompts::Seen::same:
        case RecentPrompts::Seen::no:
            break;
    }
    return MissReason::never_seen;
}

void Cache::set_miss(Lease& held, const Survey& found, uint32_t use, uint32_t limit) {
    held.info.miss = MissReason::none;
    if (use >= limit) return;
    int64_t ago_ns = -1;
    const uint32_t block = use < found.usable ? use : found.usable;
    held.info.miss = why_missing(held.chain, held.ns(), block, held.info.miss_tier, ago_ns);
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
            const uint32_t first =
                first_needed_block(options_.layout.groups[g], options_.layout.block_tokens,
                                   answer.hit_blocks * options_.layout.block_tokens);
            if (b >= first) slowest = std::max(slowest, tier_of(found.sources[g][b]));
        }
        ++answer.blocks_by_tier[static_cast<int>(slowest)];
    }
    if (answer.hit_blocks >= limit) return answer;
    answer.reason = cut != MissReason::none
                        ? cut
                        : why_missing(chain, ns, answer.hit_blocks, answer.tier, answer.ago_ns);
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
