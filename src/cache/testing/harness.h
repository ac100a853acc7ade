// A pretend engine for cache tests: "computing" a block fills its pages with bytes derived from the
// block's prefix hash, so that any wrong, stale or foreign page is seen at once.
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "cache/cache.h"
#include "cache/testing/fake_store.h"

namespace quire::testing {

inline KvLayout two_group_layout() {
    KvLayout layout;
    layout.groups.push_back({KvKind::full, 0, {0, 2}, 1, 16});
    layout.groups.push_back({KvKind::window, 40, {1, 3, 4}, 2, 16});
    return layout;
}

// The same with codes and two blocks of sinks.
inline KvLayout coded_layout() {
    return split_for_codes(two_group_layout(), 32,
                           {{0, {0, 2}, {.codec = 0x4603, .bytes = 192, .transform = {5, 6}}},
                            {1, {1, 3, 4}, {.codec = 0x4603, .bytes = 192}}},
                           {7, 8});
}

// Layers 2 and 3 are not coded.
inline KvLayout partly_coded_layout() {
    return split_for_codes(two_group_layout(), 32,
                           {{0, {0}, {.codec = 0x4603, .bytes = 192, .transform = {5, 6}}},
                            {1, {1, 4}, {.codec = 0x4603, .bytes = 192}}},
                           {7, 8});
}

class Harness {
 public:
    explicit Harness(uint32_t slots, KvLayout layout = two_group_layout(),
                     std::vector<Tier> tiers = {Tier::g2, Tier::g3}) {
        options.layout = std::move(layout);
        options.model = {{7, 9}};
        uint64_t per_slot = 0;
        for (size_t g = 0; g < options.layout.groups.size(); ++g)
            per_slot += options.layout.slab_bytes(g);
        options.g1_bytes = per_slot * slots;
        options.cost.prefill_ns_per_token = 1e9;  // loading always pays
        for (Tier tier : tiers) stores.push_back(std::make_unique<FakeStore>(tier));
        open();
    }

    // A test that ends early leaves loads that nobody would complete.
    ~Harness() {
        for (auto& store : stores) store->step_all();
    }

    void open() {
        cache.reset();
        std::vector<LowerTier> lower;
        for (auto& store : stores) lower.push_back({store.get(), admit, write_through});
        auto made = Cache::create(options, lower, clock, [] {});
        ASSERT_TRUE(made.ok()) << made.error().message;
        cache = std::move(made).value();
    }

    LeaseId acquire(TokenSpan prompt, std::string tenant = "", std::string salt = "") {
        auto lease = cache->acquire({prompt, std::move(tenant), std::move(salt), 0});
        EXPECT_TRUE(lease.ok()) << (lease.ok() ? "" : lease.error().message);
        return lease.ok() ? *lease : 0;
    }

    // Lets loads complete until the lease is ready.
    void settle(LeaseId id) {
        for (int i = 0; i < 1000 && cache->info(id).state == LeaseState::loading; ++i) {
            for (auto& store : stores) store->step_all();
            cache->poll();
        }
        ASSERT_EQ(cache->info(id).state, LeaseState::ready);
    }

    uint64_t blocks_in(size_t store) const { return stores[store]->stats().blocks; }

    // Waits until the background storer has reported everything.
    void settle_stores() {
        while (cache->stats().pending_stores > 0) {
            std::this_thread::yield();
            cache->poll();
        }
    }

    // Computes positions [cached, tokens.size()) in chunks and commits them.
    void compute(LeaseId id, TokenSpan tokens, const Namespace& ns, uint32_t chunk = 64,
                 const std::function<void()>& after_chunk = {}) {
        BlockChain chain(chain_root(options.model, ns), options.layout.block_tokens);
        chain.append(tokens);
        uint32_t at = cache->info(id).cached_tokens;
        while (at < tokens.size()) {
            const auto end = std::min<uint32_t>(at + chunk, static_cast<uint32_t>(tokens.size()));
            Status grown = cache->grow(id, end);
            if (!grown.ok()) {  // movers may hold what is missing
                for (auto& store : stores) store->step_all();
                settle_stores();
                grown = cache->grow(id, end);
            }
            ASSERT_TRUE(grown.ok()) << grown.error().message;
            const uint32_t block_tokens = options.layout.block_tokens;
            for (uint32_t b = at / block_tokens; b < end / block_tokens; ++b) fill(id, chain, b);
            cache->commit(id, end);
            if (after_chunk) after_chunk();
            at = end;
        }
    }

    // Every page a query at the end of the cached prefix can see holds what was computed for it.
    void expect_pages(LeaseId id, TokenSpan tokens, const Namespace& ns) {
        BlockChain chain(chain_root(options.model, ns), options.layout.block_tokens);
        chain.append(tokens);
        const uint32_t blocks = cache->info(id).cached_tokens / options.layout.block_tokens;
        for (uint32_t g = 0; g < options.layout.groups.size(); ++g) {
            const BlockRange needed =
                options.layout.needed_blocks(g, blocks * options.layout.block_tokens);
            for (uint32_t b = 0; b < blocks; ++b)
                ASSERT_EQ(needed.has(b), cache->table(id, g)[b] != nullptr)
                    << "group " << g << " block " << b;
            for (uint32_t b = needed.first; b < needed.end; ++b) {
                const std::byte* slab = cache->table(id, g)[b];
                ASSERT_NE(slab, nullptr) << "group " << g << " block " << b;
                const std::vector<std::byte> want = payload(g, chain.blocks()[b]);
                ASSERT_EQ(std::memcmp(slab + kSlabHeaderBytes, want.data(), want.size()), 0)
                    << "wrong bytes in group " << g << " block " << b;
            }
        }
    }

    std::vector<std::byte> payload(uint32_t group, const PrefixHash& hash) const {
        std::vector<std::byte> bytes(options.layout.payload_bytes(group));
        const uint64_t seed = hash.value.lo ^ (hash.value.hi * (group + 1));
        for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
            const uint64_t word = (seed + i) * 0x9e3779b97f4a7c15ull;
            std::memcpy(bytes.data() + i, &word, 8);
        }
        return bytes;
    }

    // One request from start to end: computed, committed, stored and let go.
    void serve(TokenSpan prompt, const std::string& tenant = "", const std::string& salt = "") {
        const LeaseId id = acquire(prompt, tenant, salt);
        settle(id);
        compute(id, prompt, {tenant, salt});
        cache->release(id);
        settle_stores();
    }

    // Of every lower tier, at the next open().
    std::string_view admit = "all";
    bool write_through = true;
    ManualClock clock{1'000'000'000};
    CacheOptions options;
    std::vector<std::unique_ptr<FakeStore>> stores;
    std::unique_ptr<Cache> cache;  // before the stores in death

 private:
    void fill(LeaseId id, const BlockChain& chain, uint32_t block) {
        for (uint32_t g = 0; g < options.layout.groups.size(); ++g) {
            std::byte* slab = cache->table(id, g)[block];
            if (!slab) continue;
            const std::vector<std::byte> bytes = payload(g, chain.blocks()[block]);
            std::memcpy(slab + kSlabHeaderBytes, bytes.data(), bytes.size());
        }
    }
};

inline std::vector<TokenId> some_tokens(size_t n, int32_t seed) {
    std::vector<TokenId> tokens(n);
    uint64_t state = static_cast<uint64_t>(seed) * 0x2545f4914f6cdd1dull + 1;
    for (TokenId& token : tokens) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        token = static_cast<TokenId>(state >> 48);
    }
    return tokens;
}

}  // namespace quire::testing
