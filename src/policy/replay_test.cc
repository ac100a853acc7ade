#include "policy/replay.h"

#include <algorithm>
#include <fstream>
#include <list>
#include <map>
#include <sstream>
#include <unordered_set>

#include <gtest/gtest.h>

namespace quire {
namespace {

const EvictionRow& row(std::string_view name) {
    return *find_eviction(name);
}

TEST(ParseMooncake, ReadsIdsAndNamesBadLines) {
    const auto good = parse_mooncake(
        "{\"timestamp\": 0, \"input_length\": 6, \"output_length\": 5, \"hash_ids\": [7, 9, 7]}\n"
        "\n{\"hash_ids\":[9,123456789012]}\r\n{\"hash_ids\": []}");
    ASSERT_TRUE(good.ok()) << good.error().message;
    ASSERT_EQ(good->requests.size(), 3u);
    EXPECT_EQ(good->requests[0].blocks, (std::vector<uint32_t>{0, 1, 0}));
    EXPECT_EQ(good->requests[1].blocks, (std::vector<uint32_t>{1, 2}));
    EXPECT_EQ(good->distinct_blocks, 3u);
    EXPECT_EQ(good->references, 5u);
    for (const char* bad :
         {"{}", "{\"hash_ids\": [1, -2]}", "{\"hash_ids\": [1, x]}", "{\"hash_ids\": [1, 2",
          "{\"hash_ids\": [99999999999999999999999]}", "not json", "{\"hash_ids\": ]["}) {
        const auto result = parse_mooncake("{\"hash_ids\": [1]}\n" + std::string(bad));
        ASSERT_FALSE(result.ok()) << bad;
        EXPECT_EQ(result.code(), Code::invalid);
        EXPECT_EQ(result.error().detail, 2);
    }
}

// With room for everything, what hits is exactly what was seen before, whatever the policy.
TEST(Replay, AnEndlessCacheHitsAllThatWasSeen) {
    const Trace trace = synthetic_trace(600, 11);
    std::unordered_set<uint32_t> seen;
    uint64_t expected = 0;
    for (const TraceRequest& request : trace.requests) {
        for (const uint32_t id : request.blocks) expected += seen.count(id);
        seen.insert(request.blocks.begin(), request.blocks.end());
    }
    for (const EvictionRow& policy : eviction_table()) {
        const ReplayResult result = replay(trace, policy, trace.distinct_blocks);
        EXPECT_EQ(result.hits, expected) << policy.name;
        EXPECT_EQ(result.references, trace.references);
        EXPECT_EQ(result.evictions, 0u);
    }
}

// LRU of whole prefixes, written down naively: a list of ids in order of last use.
uint64_t naive_lru_hits(const Trace& trace, size_t capacity) {
    std::list<uint32_t> order;  // oldest first
    std::map<uint32_t, uint32_t> parent_of;
    uint64_t hits = 0;
    const auto resident = [&](uint32_t id) {
        return std::find(order.begin(), order.end(), id) != order.end();
    };
    for (const TraceRequest& request : trace.requests) {
        const auto& ids = request.blocks;
        size_t have = 0;
        while (have < ids.size() && resident(ids[have])) ++have;
        hits += have;
        const auto own = [&](uint32_t id) {
            return std::find(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(have), id) !=
                   ids.begin() + static_cast<ptrdiff_t>(have);
        };
        size_t missing = ids.size() - have;
        while (order.size() + missing > capacity) {
            const auto leaf = std::find_if(order.begin(), order.end(), [&](uint32_t id) {
                if (own(id)) return false;
                return std::none_of(order.begin(), order.end(), [&](uint32_t child) {
                    const auto it = parent_of.find(child);
                    return it != parent_of.end() && it->second == id;
                });
            });
            if (leaf == order.end()) break;
            order.erase(leaf);
        }
        const size_t fits = std::min(missing, capacity - order.size());
        for (size_t i = have; i < have + fits; ++i) {
            if (i > 0) parent_of[ids[i]] = ids[i - 1];
        }
        for (size_t i = have + fits; i > 0; --i) {
            order.remove(ids[i - 1]);
            order.push_back(ids[i - 1]);
        }
    }
    return hits;
}

TEST(Replay, LruEqualsANaiveOne) {
    const Trace trace = synthetic_trace(250, 5);
    for (const uint32_t capacity : {5u, 40u, 150u, 400u}) {
        EXPECT_EQ(replay(trace, row("lru"), capacity).hits, naive_lru_hits(trace, capacity))
            << capacity;
    }
}

TEST(Replay, IsDeterministicAndNeverWorseThanNothing) {
    const Trace trace = synthetic_trace(2000, 3);
    for (const EvictionRow& policy : eviction_table()) {
        uint64_t last = 0;
        for (const uint32_t capacity : {0u, 1u, 100u, 1000u, 8000u}) {
            const ReplayResult a = replay(trace, policy, capacity);
            const ReplayResult b = replay(trace, policy, capacity);
            EXPECT_EQ(a.hits, b.hits) << policy.name;
            EXPECT_EQ(a.evictions, b.evictions) << policy.name;
            EXPECT_GE(a.hits + trace.references / 50, last) << policy.name << " at " << capacity;
            last = a.hits;
        }
        EXPECT_GT(last, trace.references / 4) << policy.name;
    }
}

// What the adaptive row is for: close to the best of its experts, on either kind of load.
TEST(Replay, AdaptiveStaysNearTheBestOfItsExperts) {
    const Trace trace = synthetic_trace(4000, 9);
    for (const uint32_t capacity : {300u, 1500u, 6000u}) {
        double best = 0;
        for (const std::string_view name : {"lru", "lfu-da", "s3fifo"}) {
            best = std::max(best, replay(trace, row(name), capacity).hit_rate());
        }
        const double adaptive = replay(trace, row("adaptive"), capacity).hit_rate();
        EXPECT_GE(adaptive, best - 0.02) << capacity;
    }
}

// The published figures for LRU on the real trace, where a checkout has it beside it.
TEST(Replay, LruOnTheConversationTraceMatchesThePublishedHitRates) {
    std::ifstream file("../shared/traces/conversation_trace.jsonl", std::ios::binary);
    if (!file) GTEST_SKIP() << "no trace in ../shared/traces; the synthetic one is tested above";
    std::ostringstream text;
    text << file.rdbuf();
    const auto trace = parse_mooncake(text.str());
    ASSERT_TRUE(trace.ok()) << trace.error().message;
    ASSERT_EQ(trace->references, 288500u);
    ASSERT_EQ(trace->distinct_blocks, 182790u);
    EXPECT_NEAR(replay(*trace, row("lru"), 182790 / 50).hit_rate(), 0.079, 0.002);
    EXPECT_NEAR(replay(*trace, row("lru"), 182790 / 10).hit_rate(), 0.279, 0.002);
    EXPECT_NEAR(replay(*trace, row("lru"), 182790).hit_rate(), 0.366, 0.001);
    // Frequency pays when the cache is small, and the adaptive policy finds that out.
    const double small_lru = replay(*trace, row("lru"), 182790 / 50).hit_rate();
    EXPECT_GT(replay(*trace, row("s3fifo"), 182790 / 50).hit_rate(), small_lru * 1.3);
    EXPECT_GT(replay(*trace, row("adaptive"), 182790 / 50).hit_rate(), small_lru * 1.25);
}

}  // namespace
}  // namespace quire
