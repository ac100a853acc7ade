#include "cache/lookup.h"

#include <algorithm>

namespace quire {

uint32_t first_needed_block(const KvGroup& group, uint32_t block_tokens, uint32_t position) {
    if (group.kind != KvKind::window || position < group.window_tokens) return 0;
    // A query at p sees keys in (p - window, p].
    return (position - group.window_tokens + 1) / block_tokens;
}

std::vector<bool> usable_ends(const KvLayout& layout, const SourceTable& sources, uint32_t limit) {
    // run[g] = blocks available without a gap that end just before n.
    std::vector<uint32_t> run(layout.groups.size(), 0);
    std::vector<bool> ends(limit);
    for (uint32_t n = 1; n <= limit; ++n) {
        bool usable = true;
        for (size_t g = 0; g < run.size(); ++g) {
            run[g] = sources[g][n - 1] == Source::absent ? 0 : run[g] + 1;
            const uint32_t first =
                first_needed_block(layout.groups[g], layout.block_tokens, n * layout.block_tokens);
            usable = usable && run[g] >= n - first;
        }
        ends[n - 1] = usable;
    }
    return ends;
}

uint32_t first_missing(const KvLayout& layout, const SourceTable& sources, uint32_t n) {
    for (uint32_t b = 0; b <= n; ++b)
        for (size_t g = 0; g < sources.size(); ++g)
            if (sources[g][b] == Source::absent &&
                b >= first_needed_block(layout.groups[g], layout.block_tokens,
                                        (n + 1) * layout.block_tokens))
                return b;
    return n;
}

uint32_t longest_usable(const std::vector<bool>& ends) {
    const auto last = std::find(ends.rbegin(), ends.rend(), true);
    return static_cast<uint32_t>(ends.rend() - last);
}

}  // namespace quire
