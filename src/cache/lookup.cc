#include "cache/lookup.h"

#include <algorithm>

namespace quire {

std::vector<bool> usable_ends(const KvLayout& layout, const SourceTable& sources, uint32_t limit) {
    // after_gap[g] = the block behind the last one before n that the group ought to have and lacks.
    std::vector<uint32_t> after_gap(layout.groups.size(), 0);
    std::vector<bool> ends(limit);
    for (uint32_t n = 1; n <= limit; ++n) {
        bool usable = layout.can_end(n);
        for (size_t g = 0; g < after_gap.size(); ++g) {
            if (sources[g][n - 1] == Source::absent && layout.kept_blocks(g, n).has(n - 1))
                after_gap[g] = n;
            const BlockRange needed = layout.needed_blocks(g, n * layout.block_tokens);
            usable = usable && (needed.count() == 0 || after_gap[g] <= needed.first);
        }
        ends[n - 1] = usable;
    }
    return ends;
}

uint32_t first_missing(const KvLayout& layout, const SourceTable& sources, uint32_t n) {
    for (uint32_t b = 0; b <= n; ++b)
        for (size_t g = 0; g < sources.size(); ++g)
            if (sources[g][b] == Source::absent &&
                layout.needed_blocks(g, (n + 1) * layout.block_tokens).has(b))
                return b;
    return n;
}

uint32_t longest_usable(const std::vector<bool>& ends) {
    const auto last = std::find(ends.rbegin(), ends.rend(), true);
    return static_cast<uint32_t>(ends.rend() - last);
}

}  // namespace quire
