// Attention of layer k runs on what has landed by then and on nothing else: a real model, a real
// cache, and a tier that lands one layer at a time, when the test lets it.
#include "engine/step_gate.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "cache/testing/fake_store.h"
#include "engine/model/tiny_model.h"

namespace quire {
namespace {

using testing::FakeStore;
using testing::Fault;

constexpr uint32_t kPromptTokens = 75;
constexpr int64_t kLong_ns = int64_t{60} * 1'000'000'000;

// Lets a mover on another thread land layers until the one that is asked for is there.
class MovedGate final : public LayerGate {
 public:
    MovedGate(Cache& cache, FakeStore& store, LeaseId lease, LayerGate* inner)
        : cache_(cache), store_(store), lease_(lease), inner_(inner) {}
    ~MovedGate() override {
        if (mover_.joinable()) mover_.join();
    }

    bool wait_layer(uint32_t layer, size_t sequence) override {
        if (sequence != 0 || !inner_) return true;
        const bool there = cache_.wait_layer(lease_, layer, 0).ok();
        early += there;
        if (mover_.joinable()) mover_.join();
        mover_ = std::thread([this, layer] {
            while (stepped_ < steps_until(layer)) {
                store_.step();
                ++stepped_;
            }
        });
        return inner_->wait_layer(layer, sequence);
    }
    int early = 0;  // layers that were there before anybody asked

 private:
    // The store lands the layers of the group with layer 0 in order, reports, then the other group.
    int steps_until(uint32_t layer) const {
        const auto group_of = [this](uint32_t wanted, int* index) {
            for (uint32_t g = 0;; ++g) {
                const auto& layers = cache_.layout().groups[g].layers;
                const auto at = std::ranges::find(layers, wanted);
                *index = static_cast<int>(at - layers.begin());
                if (at != layers.end()) return g;
            }
        };
        int index = 0;
        const uint32_t first = group_of(0, &index);
        if (group_of(layer, &index) == first) return index + 1;
        return static_cast<int>(cache_.layout().groups[first].layers.size()) + 1 + index + 1;
    }

    Cache& cache_;
    FakeStore& store_;
    LeaseId lease_;
    LayerGate* inner_;
    int stepped_ = 0;  // the mover's
    std::thread mover_;
};

class StepGateTest : public ::testing::TestWithParam<const char*> {
 protected:
    void SetUp() override {
        spec_.family = GetParam();
        if (spec_.family == "gemma3") spec_.n_layers = 8;  // layer 5 is a full one
        const test::TinyModel tiny = test::write_tiny_model(spec_);
        model_ = std::move(GgufModel::open(tiny.path)).value();
        forward_ = std::move(Forward::create(*model_, {.n_threads = 2, .max_rows = 128})).value();
        CacheOptions options;
        options.layout = forward_->layout();
        options.model = model_->id();
        options.g1_bytes = uint64_t{8} << 20;
        options.cost.prefill_ns_per_token = 1e9;
        cache_ = std::move(Cache::create(options, {{&store_, "all"}}, system_clock(), {})).value();
        std::mt19937 rng(11);
        for (uint32_t i = 0; i < kPromptTokens; ++i)
            prompt_.push_back(static_cast<TokenId>(rng() % static_cast<uint32_t>(spec_.n_vocab)));
        cold_ = compute(acquire(), 0);
        while (cache_->stats().pending_stores > 0) {
            std::this_thread::yield();
            cache_->poll();
        }
        cache_->flush(Tier::g1);
        store_.by_layer = true;
    }

    LeaseId acquire() {
        auto lease = cache_->acquire({prompt_, "", "", 0});
        EXPECT_TRUE(lease.ok());
        return *lease;
    }
    StepSequence sequence(LeaseId id, uint32_t from) {
        EXPECT_TRUE(cache_->grow(id, kPromptTokens).ok());
        StepSequence made;
        made.tokens = TokenSpan(prompt_).subspan(from);
        made.first_pos = static_cast<int32_t>(from);
        made.n_logit_rows = 1;
        for (uint32_t g = 0; g < cache_->layout().groups.size(); ++g)
            made.slabs[g] = cache_->table(id, g).data();
        return made;
    }
    std::vector<float> compute(LeaseId id, uint32_t from) {
        const StepSequence step = sequence(id, from);
        auto result = forward_->step({&step, 1});
        EXPECT_TRUE(result.ok());
        std::vector<float> logits(result->logits.begin(), result->logits.end());
        cache_->commit(id, kPromptTokens);
        cache_->release(id);
        return logits;
    }
    // Not a number wherever a page is read before it has landed.
    void spoil(LeaseId id) {
        for (uint32_t g = 0; g < cache_->layout().groups.size(); ++g)
            for (std::byte* slab : cache_->table(id, g))
                if (slab) std::memset(slab, 0xff, cache_->layout().slab_bytes(g));
    }
    void land_all() {
        while (store_.step()) {
        }
    }
    void settle(LeaseId id) {
        while (cache_->info(id).state != LeaseState::ready) {
            land_all();
            cache_->poll();
        }
    }
    bool equal(std::span<const float> logits) const {
        return std::memcmp(logits.data(), cold_.data(), cold_.size() * sizeof(float)) == 0;
    }
    void expect_idle() {
        land_all();
        cache_->poll();
        const CacheStats stats = cache_->stats();
        EXPECT_EQ(stats.leases + stats.pending_loads, 0u);
    }

    test::TinySpec spec_;
    FakeStore store_{Tier::g2};
    std::unique_ptr<GgufModel> model_;
    std::unique_ptr<Forward> forward_;
    std::unique_ptr<Cache> cache_;
    std::vector<TokenId> prompt_;
    std::vector<float> cold_;
};
INSTANTIATE_TEST_SUITE_P(Families, StepGateTest, ::testing::Values("llama", "gemma3"));

TEST_P(StepGateTest, EachLayerWaitsForItsOwnBytesAndTheBitsAreThoseOfAColdRun) {
    const LeaseId id = acquire();
    ASSERT_EQ(cache_->info(id).state, LeaseState::loading);
    const uint32_t cached = cache_->info(id).cached_tokens;
    ASSERT_EQ(cached, kPromptTokens / 16 * 16);
    spoil(id);
    const StepSequence step = sequence(id, cached);
    StepGate gate(*cache_, system_clock(), {id}, kLong_ns);
    {
        MovedGate moved(*cache_, store_, id, &gate);
        auto result = forward_->step({&step, 1}, &moved);
        ASSERT_TRUE(result.ok());
        EXPECT_TRUE(result->dropped.empty());
        EXPECT_TRUE(equal(result->logits));
        // Of gemma3, layers 6 and 7 land before layer 5, the first of the other group.
        EXPECT_EQ(moved.early, spec_.family == "llama" ? 0 : 2);
    }
    land_all();
    EXPECT_TRUE(cache_->settle(id, 0));
    cache_->commit(id, kPromptTokens);
    cache_->release(id);
    expect_idle();
}

// The control of the test above: without the gate, spoilt pages show.
TEST_P(StepGateTest, WithoutTheGateTheBitsDiffer) {
    const LeaseId id = acquire();
    spoil(id);
    const StepSequence step = sequence(id, cache_->info(id).cached_tokens);
    auto result = forward_->step({&step, 1});
    ASSERT_TRUE(result.ok());
    EXPECT_FALSE(equal(result->logits));
    land_all();
    cache_->release(id);
    expect_idle();
}

TEST_P(StepGateTest, AFailureUnderWayDropsTheSequenceAloneAndIsComputedAgain) {
    bool used = false;
    store_.fault = [&](const BlockKey&) {
        return std::exchange(used, true) ? Fault::none : Fault::damaged_bytes;
    };
    const LeaseId id = acquire();
    const uint32_t cached = cache_->info(id).cached_tokens;
    test::PlainPages pages(forward_->layout(), kPromptTokens);
    const StepSequence steps[] = {sequence(id, cached), pages.sequence(prompt_, 0, 1)};
    StepGate gate(*cache_, system_clock(), {id, 0}, kLong_ns);
    {
        MovedGate moved(*cache_, store_, id, &gate);
        auto result = forward_->step(steps, &moved);
        ASSERT_TRUE(result.ok());
        EXPECT_EQ(result->dropped, std::vector<size_t>{0});
        EXPECT_TRUE(equal(result->logits.subspan(cold_.size()))) << "the other one goes on";
    }
    EXPECT_FALSE(gate.late());
    settle(id);
    EXPECT_LT(cache_->info(id).cached_tokens, cached);
    EXPECT_TRUE(equal(compute(id, cache_->info(id).cached_tokens)));
    EXPECT_GT(cache_->stats().load_failures[1], 0u);
    expect_idle();
}

TEST_P(StepGateTest, ALateLoadIsLeftBehindWithinTheBudgetAndUsedLater) {
    const LeaseId id = acquire();
    const uint32_t cached = cache_->info(id).cached_tokens;
    ASSERT_TRUE(store_.step());  // the first layer only
    const StepSequence step = sequence(id, cached);
    StepGate gate(*cache_, system_clock(), {id}, 1'000'000);
    auto result = forward_->step({&step, 1}, &gate);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->dropped, std::vector<size_t>{0});
    EXPECT_TRUE(gate.late());
    EXPECT_GE(gate.waited_ns(), 1'000'000);
    EXPECT_EQ(cache_->info(id).state, LeaseState::loading) << "the load goes on";
    settle(id);
    EXPECT_EQ(cache_->info(id).cached_tokens, cached);
    EXPECT_TRUE(equal(compute(id, cached)));
    expect_idle();
}

TEST_P(StepGateTest, TheBudgetIsOneForAllSequences) {
    const LeaseId id = acquire();
    StepGate gate(*cache_, system_clock(), {id, id, 0}, 2'000'000);
    for (int i = 0; i < 50; ++i) EXPECT_FALSE(gate.wait_layer(0, static_cast<size_t>(i % 2)));
    EXPECT_TRUE(gate.wait_layer(0, 2));
    EXPECT_LT(gate.waited_ns(), kLong_ns);
    cache_->release(id);
    expect_idle();
}

}  // namespace
}  // namespace quire
