// Many leases over few slots, with tiers that fail at random: pages are always right, nothing
// leaks.
#include <map>

#include <gtest/gtest.h>

#include "cache/testing/harness.h"

namespace quire {
namespace {

using testing::Fault;
using testing::Harness;
using testing::some_tokens;

class Random {
 public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint32_t below(uint32_t n) {
        state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
        return static_cast<uint32_t>((state_ >> 33) % n);
    }

 private:
    uint64_t state_;
};

// A prompt from a small family tree, so that prefixes are shared.
std::vector<TokenId> family_prompt(Random& random) {
    auto prompt = some_tokens(16 * (1 + random.below(4)), static_cast<int32_t>(random.below(2)));
    const auto tail = some_tokens(random.below(70) + 1, static_cast<int32_t>(10 + random.below(4)));
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    return prompt;
}

void empty_something(Harness& h, uint32_t what) {
    h.settle_stores();
    if (what < 2)
        h.cache->flush(what ? Tier::g1 : Tier::g2);
    else if (what == 2)
        h.stores[0]->evict_all();
    else
        h.cache->store_all(1);
}

// A step on a lease that is loading: what it may look at is right, and it counts only if settled.
bool enter(Harness& h, LeaseId id, const std::vector<TokenId>& prompt, const Namespace& ns) {
    if (!h.cache->grow(id, static_cast<uint32_t>(prompt.size())).ok()) return false;
    const auto movers_work = [&] { return h.stores[0]->step() | h.stores[1]->step(); };
    for (uint32_t layer = 0; layer < 5; ++layer) {
        Status landed = h.cache->wait_layer(id, layer, 0);
        while (landed.code() == Code::timeout && movers_work())
            landed = h.cache->wait_layer(id, layer, 0);
        if (!landed.ok()) return false;
    }
    h.expect_pages(id, prompt, ns);
    while (movers_work()) {
    }
    if (!h.cache->settle(id, 0)) return false;
    h.compute(id, prompt, ns);
    return true;
}

// With no lease left, nothing is held by anybody; and the run did what it was made for.
void expect_balanced(Harness& h) {
    for (auto& store : h.stores) store->step_all();
    h.cache->poll();
    h.settle_stores();
    h.cache->poll();  // what the last stores pushed out
    h.settle_stores();
    const CacheStats stats = h.cache->stats();
    EXPECT_EQ(stats.leases + stats.pending_loads + stats.pending_stores + stats.pinned_blocks, 0u);
    EXPECT_EQ(stats.pending_store_bytes, 0u);
    h.cache->flush(Tier::g1);
    EXPECT_EQ(h.cache->stats().g1_used_bytes, 0u);
    EXPECT_EQ(h.cache->stats().index_blocks, 0u) << "the index remembers blocks that are nowhere";
    EXPECT_GT(stats.loaded_blocks[1] + stats.loaded_blocks[2], 0u) << "the test loaded nothing";
    EXPECT_GT(stats.load_failures[1] + stats.load_failures[2], 0u) << "no fault was met";
    for (auto& store : h.stores) EXPECT_EQ(store->unsealed_puts, 0);
}

class CacheProperty : public ::testing::TestWithParam<uint64_t> {
 protected:
    static void TearDownTestSuite() {
        EXPECT_GT(total_entered, 0) << "no step began before its loads had ended";
    }
    static inline int total_entered = 0;
};

TEST_P(CacheProperty, PagesAreRightAndNothingLeaks) {
    const uint64_t seed = GetParam();
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    KvLayout layout = seed % 6 == 0   ? testing::partly_coded_layout()
                      : seed % 3 == 0 ? testing::coded_layout()
                                      : testing::two_group_layout();
    if (seed % 9 == 3) layout.span_tokens = 48;
    Harness h(40, layout);
    h.write_through = seed % 2 == 0;
    h.options.demotion_bytes_max = 0;  // few copies, so that some are refused
    h.open();
    Random faults(seed + 1);
    for (auto& store : h.stores)
        store->fault = [&](const BlockKey&) {
            return faults.below(20) == 0 ? static_cast<Fault>(1 + faults.below(5)) : Fault::none;
        };
    for (auto& store : h.stores) store->by_layer = seed % 4 < 2;
    int entered = 0;
    std::map<LeaseId, std::vector<TokenId>> held;
    const char* salts[] = {"", "x"};
    std::map<LeaseId, std::string> salt_of;
    for (int step = 0; step < 600; ++step) {
        switch (random.below(6)) {
            case 0:
            case 1: {
                if (held.size() >= 3) break;
                auto prompt = family_prompt(random);
                const std::string salt = salts[random.below(2)];
                const LeaseId id = h.acquire(prompt, "", salt);
                held[id] = prompt;
                salt_of[id] = salt;
                break;
            }
            case 2:
                for (auto& store : h.stores) store->step();
                break;
            case 3:
                empty_something(h, random.below(4));
                break;
            default: {
                if (held.empty()) break;
                auto it = held.begin();
                std::advance(it, random.below(static_cast<uint32_t>(held.size())));
                const LeaseId id = it->first;
                const Namespace ns{"", salt_of[id]};
                const bool loading = h.cache->info(id).state == LeaseState::loading;
                if (loading && random.below(2) == 0) {
                    if (!enter(h, id, it->second, ns)) break;
                    ++entered;
                } else if (h.cache->info(id).state == LeaseState::ready) {
                    h.expect_pages(id, it->second, ns);
                    h.compute(id, it->second, ns, 1 + random.below(40));
                }
                if (random.below(4) == 0) h.cache->spill(id);
                h.cache->release(id);
                held.erase(it);
            }
        }
        if (::testing::Test::HasFatalFailure()) return;
        h.cache->poll();
    }
    for (auto& [id, prompt] : held) h.cache->release(id);
    expect_balanced(h);
    total_entered += entered;
}

INSTANTIATE_TEST_SUITE_P(Seeds, CacheProperty, ::testing::Range<uint64_t>(1, 41));

// longest_usable against its definition.
TEST(Lookup, LongestUsableMatchesItsDefinition) {
    Random random(5);
    for (int round = 0; round < 3000; ++round) {
        KvLayout layout = round % 2 == 0   ? testing::two_group_layout()
                          : round % 4 == 1 ? testing::coded_layout()
                                           : testing::partly_coded_layout();
        const uint32_t span_blocks = layout.coded() ? 1 + random.below(4) : 1;
        if (span_blocks > 1) layout.span_tokens = 16 * span_blocks;
        const uint32_t blocks = 1 + random.below(12);
        SourceTable sources(layout.groups.size(), std::vector<Source>(blocks));
        for (auto& group : sources)
            for (Source& source : group)
                source = random.below(5) == 0 ? Source::absent : Source::g1;
        uint32_t want = 0;
        for (uint32_t n = 1; n <= blocks; ++n) {
            // What is read exact next: from the span's beginning on, of which sinks alone are kept.
            bool usable = n % span_blocks == 0 || n <= layout.sink_blocks();
            for (size_t g = 0; g < layout.groups.size(); ++g) {
                const KvKeep keep = layout.groups[g].keep;
                // A query at position n * 16 sees keys above n * 16 - window.
                const int64_t lowest =
                    layout.groups[g].kind == KvKind::full
                        ? 0
                        : std::max<int64_t>(0,
                                            int64_t{n} * 16 - layout.groups[g].window_tokens + 1);
                for (uint32_t b = 0; b < n; ++b) {
                    if (keep == (b < 2 ? KvKeep::rest : KvKeep::sinks)) continue;
                    if (int64_t{b} * 16 + 15 >= lowest && sources[g][b] == Source::absent)
                        usable = false;
                }
            }
            if (usable) want = n;
        }
        ASSERT_EQ(longest_usable(usable_ends(layout, sources, blocks)), want) << "round " << round;
    }
}

}  // namespace
}  // namespace quire
