// A model with compressed pages over a real cache and real tiers: what comes from a tier has the
// bits of what was computed, however prompts are cut, after a restart, and after giving up pages.
#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "cache/cache.h"
#include "engine/model/forward.h"
#include "engine/model/tiny_model.h"
#include "tier/disk/disk.h"
#include "tier/host/host_store.h"
#include "tier/testing/temp_dir.h"

namespace quire {
namespace {

constexpr uint32_t kCodesCacheSeed = 6404;
constexpr uint32_t kCodedPromptTokens = 300;
constexpr uint32_t kCodedAnswerTokens = 90;  // the sequence ends in another block

struct CodesCacheCase {
    const char* family;
    int32_t window;
    const char* codec;
    uint32_t sink_tokens;
    std::vector<uint32_t> exact_layers = {};
    uint32_t recent_tokens = 64;
};

// Logits of the last prompt row and of every decode, and where the prefix came from.
struct CodedReply {
    std::vector<float> logits;
    std::vector<TokenId> tokens;  // the prompt, then the answer
    LeaseInfo lease;
};

class CodesCache : public ::testing::TestWithParam<CodesCacheCase> {
 protected:
    void SetUp() override {
        spec_.family = GetParam().family;
        spec_.window = GetParam().window;
        if (spec_.family == "gemma3") spec_.n_layers = 8;  // layer 5 is a full one
        tiny_ = test::write_tiny_model(spec_);
        std::mt19937 rng(kCodesCacheSeed);
        for (uint32_t i = 0; i < kCodedPromptTokens; ++i)
            prompt_.push_back(static_cast<TokenId>(rng() % static_cast<uint32_t>(spec_.n_vocab)));
    }

    // As a new process would; the directory stays.
    void open(const char* codec, uint64_t g1_bytes = uint64_t{16} << 20) {
        cache_.reset();
        stores_.clear();
        forward_.reset();
        model_ = std::move(GgufModel::open(tiny_.path)).value();
        auto coding =
            find_kv_coding(codec, GetParam().sink_tokens, model_->kv_layout(kCodedBlockTokens));
        ASSERT_TRUE(coding.ok()) << coding.error().message;
        ASSERT_TRUE(
            keep_exact(&*coding, GetParam().exact_layers, model_->kv_layout(kCodedBlockTokens))
                .ok());
        ASSERT_TRUE(set_recent(&*coding, GetParam().recent_tokens, 4096).ok());
        if (coding->scheduled) {
            const KvLayout plain = model_->kv_layout(kCodedBlockTokens);
            codec::Sidecar sidecar{.layers = codec::sidecar_layers(plain)};
            for (size_t l = 0; l < sidecar.layers.size(); ++l)
                sidecar.bits.push_back(l % 2 == 0 ? codec::LayerBits{8, 6}
                                                  : codec::LayerBits{4, 3});
            ASSERT_TRUE(
                take_sidecar(&*coding, {sidecar, codec::sidecar_file(sidecar).hash}, plain).ok());
        }
        forward_ = std::move(Forward::create(*model_, {.n_threads = 1,
                                                       .block_tokens = kCodedBlockTokens,
                                                       .coding = *coding,
                                                       .max_rows = 128}))
                       .value();
        CacheOptions options;
        options.layout = forward_->layout();
        options.model = model_->id();
        options.g1_bytes = g1_bytes;
        options.step_tokens = 128;
        options.leases_max = 2;
        options.cost.prefill_ns_per_token = 1e9;
        stores_.push_back(std::move(open_host_store({.layout = options.layout,
                                                     .capacity_bytes = uint64_t{16} << 20}))
                              .value());
        DiskOptions disk;
        disk.dir = dir_.path() + "/kv";
        disk.capacity_bytes = uint64_t{256} << 20;
        disk.io = io_.get();
        stores_.push_back(std::move(open_disk_store(disk)).value());
        auto made = Cache::create(options, {{stores_[0].get(), "all"}, {stores_[1].get(), "all"}},
                                  system_clock(), {});
        ASSERT_TRUE(made.ok()) << made.error().message;
        cache_ = std::move(made).value();
    }

    LeaseId acquire(TokenSpan prompt) {
        auto lease = cache_->acquire({prompt, "", "", 0});
        EXPECT_TRUE(lease.ok());
        while (cache_->info(*lease).state != LeaseState::ready) {
            cache_->poll();
            std::this_thread::yield();
        }
        return *lease;
    }

    // Logits of the last of the tokens from `pos` on.
    std::vector<float> step(LeaseId id, TokenSpan tokens, uint32_t pos) {
        const auto end = pos + static_cast<uint32_t>(tokens.size());
        EXPECT_TRUE(cache_->grow(id, end).ok());
        StepSequence s{.tokens = tokens, .first_pos = static_cast<int32_t>(pos), .n_logit_rows = 1};
        for (uint32_t g = 0; g < cache_->layout().groups.size(); ++g)
            s.slabs[g] = cache_->table(id, g).data();
        auto result = forward_->step({&s, 1});
        EXPECT_TRUE(result.ok());
        cache_->commit(id, end);
        return {result->logits.begin(), result->logits.end()};
    }

    CodedReply run(uint32_t chunk) {
        CodedReply reply;
        reply.tokens = prompt_;
        const LeaseId id = acquire(prompt_);
        reply.lease = cache_->info(id);
        std::vector<float> last;
        for (uint32_t pos = reply.lease.cached_tokens; pos < kCodedPromptTokens;) {
            const uint32_t n = std::min(chunk, kCodedPromptTokens - pos);
            last = step(id, TokenSpan(prompt_).subspan(pos, n), pos);
            pos += n;
        }
        reply.logits = last;
        for (uint32_t i = 0; i < kCodedAnswerTokens; ++i) {
            const auto best = std::ranges::max_element(last) - last.begin();
            reply.tokens.push_back(static_cast<TokenId>(best));
            cache_->append(id, reply.tokens.back());
            last = step(id, {&reply.tokens.back(), 1}, kCodedPromptTokens + i);
            reply.logits.insert(reply.logits.end(), last.begin(), last.end());
        }
        cache_->release(id);
        settle();
        return reply;
    }

    static uint32_t whole_spans(uint32_t tokens) {
        return tokens / GetParam().recent_tokens * GetParam().recent_tokens;
    }

    void settle() {
        do {
            cache_->poll();
            std::this_thread::yield();
        } while (cache_->stats().pending_stores > 0);
    }

    static void expect_same(const CodedReply& got, const CodedReply& want) {
        EXPECT_EQ(got.tokens, want.tokens);
        ASSERT_EQ(got.logits.size(), want.logits.size());
        EXPECT_EQ(memcmp(got.logits.data(), want.logits.data(), want.logits.size() * 4), 0);
    }

    test::TinySpec spec_;
    test::TinyModel tiny_;
    std::vector<TokenId> prompt_;
    testing::TempDir dir_;
    std::unique_ptr<IoEngine> io_ = std::move(make_io_engine({})).value();
    std::unique_ptr<GgufModel> model_;
    std::unique_ptr<Forward> forward_;
    std::vector<std::unique_ptr<TierStore>> stores_;
    std::unique_ptr<Cache> cache_;
};

TEST_P(CodesCache, EveryTierGivesTheBitsOfAColdRun) {
    open(GetParam().codec);
    const CodedReply cold = run(128);
    EXPECT_EQ(cold.lease.cached_tokens, 0u);
    const uint32_t whole = whole_spans(kCodedPromptTokens);
    const auto expect_from = [&](Tier tier, uint32_t chunk) {
        const CodedReply again = run(chunk);
        EXPECT_EQ(again.lease.cached_tokens, whole) << tier_name(tier);
        EXPECT_GT(again.lease.tokens_by_tier[static_cast<int>(tier)], 0u) << tier_name(tier);
        expect_same(again, cold);
    };
    expect_from(Tier::g1, 7);
    cache_->flush(Tier::g1);
    expect_from(Tier::g2, 128);
    cache_->flush(Tier::g1);
    cache_->flush(Tier::g2);
    expect_from(Tier::g3, 33);
    open(GetParam().codec);
    expect_from(Tier::g3, 64);
    EXPECT_EQ(cache_->stats().pinned_blocks, 0u);
    for (const uint32_t chunk : {5u, 61u, 100u}) {
        for (const Tier tier : {Tier::g1, Tier::g2, Tier::g3}) cache_->flush(tier);
        const CodedReply other_cuts = run(chunk);
        EXPECT_EQ(other_cuts.lease.cached_tokens, 0u);
        expect_same(other_cuts, cold);
    }
}

// What follows the last whole span is there, but no prefix ends with it: nothing is missing.
TEST_P(CodesCache, NothingIsMissingBehindTheLastWholeSpan) {
    open(GetParam().codec);
    const uint32_t span = GetParam().recent_tokens;
    const CodedReply cold = run(128);
    const CodedReply again = run(128);
    EXPECT_EQ(again.lease.miss, MissReason::none);
    EXPECT_EQ(cache_->explain(prompt_, {}).reason, MissReason::none);
    // A longer prompt with the same beginning ends where the answer's last whole span does.
    std::vector<TokenId> longer(cold.tokens.begin(), cold.tokens.end() - 1);
    const uint32_t whole = whole_spans(static_cast<uint32_t>(longer.size()));
    longer.resize(whole + span + 1, TokenId{1});
    const CacheExplanation why = cache_->explain(longer, {});
    EXPECT_EQ(why.hit_blocks * kCodedBlockTokens, whole);
    EXPECT_EQ(why.reason, MissReason::never_seen);
}

// A lease holds exact pages of the sinks and of its own span, and no others.
TEST_P(CodesCache, ExactPagesBelongToTheOpenSpan) {
    open(GetParam().codec);
    const KvLayout& layout = cache_->layout();
    const LeaseId id = acquire(prompt_);
    for (uint32_t pos = 0; pos < kCodedPromptTokens;) {
        const uint32_t n = std::min(47u, kCodedPromptTokens - pos);
        step(id, TokenSpan(prompt_).subspan(pos, n), pos);
        pos += n;
        for (uint32_t g = 0; g < layout.groups.size(); ++g) {
            if (layout.groups[g].keep != KvKeep::sinks) continue;
            const auto table = cache_->table(id, g);
            for (uint32_t b = 0; b < pos / kCodedBlockTokens; ++b) {
                const bool open = b >= pos / GetParam().recent_tokens * GetParam().recent_tokens /
                                           kCodedBlockTokens;
                const bool needed = layout.needed_blocks(g, pos).has(b);
                EXPECT_EQ(table[b] != nullptr, b < layout.sink_blocks() ? needed : open)
                    << "block " << b << " at " << pos;
            }
        }
    }
    cache_->release(id);
    settle();
}

// A sequence that loses its lease in the middle of a block goes on from the last whole span.
TEST_P(CodesCache, AnswersGoOnWhenPagesWereGivenUp) {
    open(GetParam().codec);
    const CodedReply whole = run(128);
    for (const Tier tier : {Tier::g1, Tier::g2, Tier::g3}) cache_->flush(tier);
    constexpr uint32_t kCut = kCodedPromptTokens + 37;
    std::vector<float> last;
    for (const uint32_t from : {0u, kCut}) {
        const TokenSpan tokens = TokenSpan(whole.tokens).first(from == 0 ? kCut : kCut + 1);
        const LeaseId id = acquire(tokens);
        uint32_t pos = cache_->info(id).cached_tokens;
        EXPECT_EQ(pos, whole_spans(from));
        while (pos < tokens.size()) {
            const auto n = std::min<uint32_t>(50, static_cast<uint32_t>(tokens.size()) - pos);
            last = step(id, tokens.subspan(pos, n), pos);
            pos += n;
        }
        if (from == 0) cache_->spill(id);
        cache_->release(id);
        settle();
        if (from == 0) cache_->flush(Tier::g1);
    }
    const size_t row = kCut - kCodedPromptTokens + 1;
    const auto vocab = static_cast<size_t>(spec_.n_vocab);
    EXPECT_EQ(memcmp(last.data(), whole.logits.data() + row * vocab, vocab * 4), 0);
}

TEST_P(CodesCache, ADirectoryOfAnotherCodecIsAMissWithAReason) {
    open("k5v5");
    const CodedReply other = run(128);
    open(GetParam().codec);
    const CacheExplanation why = cache_->explain(prompt_, {});
    EXPECT_EQ(why.hit_blocks, 0u);
    EXPECT_EQ(why.reason, MissReason::other_model);
    EXPECT_EQ(why.holder, model_->id());
    EXPECT_EQ(codec::codec_name_of_id(why.holder_codec), "k5v5");
    EXPECT_EQ(why.holder_block_tokens, kCodedBlockTokens);
    const CodedReply cold = run(128);
    EXPECT_EQ(cold.lease.cached_tokens, 0u);
    EXPECT_EQ(cold.lease.miss, MissReason::other_model);
    EXPECT_NE(cold.logits, other.logits);
    // Both live in one directory.
    open("k5v5");
    const CodedReply again = run(128);
    EXPECT_GT(again.lease.cached_tokens, 0u);
    expect_same(again, other);
}

INSTANTIATE_TEST_SUITE_P(
    All, CodesCache,
    ::testing::Values(CodesCacheCase{"llama", 0, "k8v8", 64}, CodesCacheCase{"llama", 0, "k3v2", 0},
                      CodesCacheCase{"gemma3", 100, "k6v4", 64},
                      CodesCacheCase{"gemma3", 24, "k8v8", 128},
                      CodesCacheCase{"llama", 0, "schedule", 64},
                      CodesCacheCase{"gemma3", 100, "schedule", 64},
                      CodesCacheCase{"llama", 0, "k3v2", 64, {0}},
                      CodesCacheCase{"gemma3", 100, "k6v4", 64, {2, 5}},
                      CodesCacheCase{"llama", 0, "k8v8", 64, {}, 128},
                      CodesCacheCase{"llama", 0, "k3v2", 0, {}, 192},
                      CodesCacheCase{"gemma3", 100, "k6v4", 64, {}, 128},
                      CodesCacheCase{"gemma3", 24, "schedule", 128, {1}, 256}));

}  // namespace
}  // namespace quire
