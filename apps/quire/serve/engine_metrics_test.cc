#include "apps/quire/serve/engine_metrics.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

// /metrics is open to all tenants: none may read there that another has its prompt.
TEST(EngineMetrics, SeveralTenantsAreNotToldOfEachOthersPrompts) {
    CacheStats cache;
    cache.misses[static_cast<size_t>(MissReason::never_seen)] = 3;
    cache.misses[static_cast<size_t>(MissReason::other_tenant)] = 4;
    cache.misses[static_cast<size_t>(MissReason::other_salt)] = 5;
    const auto counted = [&](bool several, label::Miss reason) {
        Metrics metrics;
        copy_misses(metrics, cache, several);
        return metrics.counter(Metric::misses_total, reason).value();
    };
    EXPECT_EQ(counted(true, label::Miss::other_tenant), 0u);
    EXPECT_EQ(counted(true, label::Miss::never_seen), 7u);
    EXPECT_EQ(counted(true, label::Miss::other_salt), 5u);
    EXPECT_EQ(counted(false, label::Miss::other_tenant), 4u);
    EXPECT_EQ(counted(false, label::Miss::never_seen), 3u);
}

}  // namespace
}  // namespace quire
