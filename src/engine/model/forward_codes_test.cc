// A model over compressed pages: against plain arithmetic over what the codec decodes, and against
// itself when prompts are cut anyhow, and when all that is left of a prefix is what a cache keeps.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <set>

#include <ggml.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model/forward.h"
#include "engine/model/joined_widths.h"
#include "engine/model/naive_forward.h"
#include "engine/model/tiny_model.h"

namespace quire {
namespace {

using test::PlainPages;
using test::TinySpec;

constexpr uint32_t kForwardCodesSeed = 2204;
// Of layers, over and over.
constexpr codec::LayerBits kWidths[] = {{8, 6}, {4, 3}, {6, 4}};

struct ForwardCodesCase {
    const char* family;
    int32_t window;
    const char* codec;
    uint32_t sink_tokens;
    bool means;
    bool turned = false;
    std::vector<uint32_t> exact_layers = {};
    std::optional<uint32_t> key_pairs = {};  // of 16
    uint32_t recent_tokens = 64;
};

std::vector<TokenId> tokens_of_codes(size_t n, int32_t n_vocab, uint32_t seed) {
    std::mt19937 rng(seed);
    std::vector<TokenId> tokens(n);
    for (TokenId& t : tokens) t = static_cast<TokenId>(rng() % static_cast<uint32_t>(n_vocab));
    return tokens;
}

std::vector<float> logits_over_codes(Forward* f, const StepSequence& s) {
    auto r = f->step({&s, 1});
    EXPECT_TRUE(r.ok()) << r.error().message;
    return {r->logits.begin(), r->logits.end()};
}

// Root of the mean squared difference.
double rms_distance(std::span<const float> a, std::span<const float> b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
    return std::sqrt(sum / static_cast<double>(a.size()));
}

class ForwardCodes : public testing::TestWithParam<ForwardCodesCase> {
 protected:
    void SetUp() override {
        spec_.family = GetParam().family;
        spec_.window = GetParam().window;
        if (spec_.family == "gemma3") spec_.n_layers = 8;  // layer 5 is a full one
    }

    void open(int32_t matrix_type) {
        spec_.matrix_type = matrix_type;
        tiny_ = test::write_tiny_model(spec_);
        auto model = GgufModel::open(tiny_.path);
        ASSERT_TRUE(model.ok()) << model.error().message;
        model_ = std::move(model).value();
        const KvLayout plain = model_->kv_layout(kCodedBlockTokens);
        auto coding = find_kv_coding(GetParam().codec, GetParam().sink_tokens, plain);
        ASSERT_TRUE(coding.ok()) << coding.error().message;
        coding_ = *coding;
        ASSERT_TRUE(set_recent(&coding_, GetParam().recent_tokens, 4096).ok());
        ASSERT_TRUE(keep_exact(&coding_, GetParam().exact_layers, plain).ok());
        if (!GetParam().means && !coding_.scheduled) return;
        codec::Sidecar sidecar;
        sidecar.layers = codec::sidecar_layers(plain);
        std::mt19937 rng(kForwardCodesSeed);
        for (std::vector<float>* means : {&sidecar.k_mean, &sidecar.v_mean})
            for (size_t i = 0; i < codec::vector_floats(sidecar.layers); ++i)
                means->push_back(static_cast<float>(static_cast<int>(rng() % 201) - 100) / 100.0f);
        for (size_t i = 0; GetParam().turned && i < sidecar.k_mean.size(); ++i)
            sidecar.k_mean_before.push_back(
                static_cast<float>(static_cast<int>(rng() % 401) - 200) / 100.0f);
        sidecar.key_pairs = GetParam().key_pairs;
        for (size_t l = 0; coding_.scheduled && l < sidecar.layers.size(); ++l)
            sidecar.bits.push_back(kWidths[l % std::size(kWidths)]);
        const Status taken =
            take_sidecar(&coding_, {sidecar, codec::sidecar_file(sidecar).hash}, plain);
        ASSERT_TRUE(taken.ok()) << taken.error().message;
        add_turns(&coding_, model_->hparams().family->rope, model_->hparams().rope_dim);
        ASSERT_EQ(coding_.turns != nullptr, GetParam().turned && GetParam().key_pairs != 0u);
        if (coding_.turns) {
            ASSERT_EQ(coding_.turns->n_pairs,
                      static_cast<int32_t>(GetParam().key_pairs.value_or(4)));
        }
    }

    std::unique_ptr<Forward> forward(int32_t n_threads) const {
        auto f = Forward::create(*model_, {.n_threads = n_threads,
                                           .block_tokens = kCodedBlockTokens,
                                           .coding = coding_,
                                           .max_rows = 512});
        EXPECT_TRUE(f.ok()) << f.error().message;
        return std::move(f).value();
    }

    TinySpec spec_;
    test::TinyModel tiny_;
    std::unique_ptr<GgufModel> model_;
    KvCoding coding_;
};

// The engine's numbers differ from the naive ones by rounding, and a rounded number now and then
// takes the next code: hence a share of what coding itself changes.
TEST_P(ForwardCodes, AgreesWithPlainArithmeticOverDecodedPages) {
    open(GGML_TYPE_F32);
    const auto tokens = tokens_of_codes(230, spec_.n_vocab, kForwardCodesSeed);
    auto f = forward(2);
    PlainPages pages(f->layout(), 240);
    const std::vector<float> got = logits_over_codes(f.get(), pages.sequence(tokens, 0, 60));
    const auto naive = test::naive_logits(tiny_, tokens, coding_);
    const auto exact = test::naive_logits(tiny_, tokens);
    std::vector<float> want, uncoded;
    for (size_t r = tokens.size() - 60; r < tokens.size(); ++r) {
        want.insert(want.end(), naive[r].begin(), naive[r].end());
        uncoded.insert(uncoded.end(), exact[r].begin(), exact[r].end());
    }
    ASSERT_EQ(got.size(), want.size());
    const double coding_changes = rms_distance(want, uncoded);
    EXPECT_GT(coding_changes, 1e-4) << "the test reads no codes";
    EXPECT_LT(rms_distance(got, want), 2e-3 + 0.2 * coding_changes);
    EXPECT_LT(rms_distance(got, want), 0.5 * rms_distance(got, uncoded));
}

TEST_P(ForwardCodes, BitsDoNotDependOnCutsCompanionsOrThreads) {
    open(GGML_TYPE_Q8_0);
    const auto prompt = tokens_of_codes(280, spec_.n_vocab, kForwardCodesSeed + 1);
    const auto other = tokens_of_codes(300, spec_.n_vocab, kForwardCodesSeed + 2);
    auto whole = forward(1);
    PlainPages truth(whole->layout(), 300);
    const auto want = logits_over_codes(whole.get(), truth.sequence(prompt, 0, 1));
    auto two = forward(2);
    for (uint32_t seed = 1; seed <= 4; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Forward* f = seed % 2 == 0 ? two.get() : whole.get();
        std::mt19937 rng(seed);
        PlainPages pages(f->layout(), 300);
        PlainPages companion(f->layout(), 310);
        std::vector<float> got;
        size_t other_pos = 0;
        for (size_t pos = 0; pos < prompt.size();) {
            const size_t n =
                std::min<size_t>(1 + rng() % (seed == 1 ? 5 : 90), prompt.size() - pos);
            std::vector<StepSequence> step;
            if (rng() % 2 == 0 && other_pos < 250) {
                const size_t m = 1 + rng() % 9;
                step.push_back(companion.sequence(std::span(other).subspan(other_pos, m),
                                                  static_cast<int32_t>(other_pos), 1));
                other_pos += m;
            }
            step.push_back(
                pages.sequence(std::span(prompt).subspan(pos, n), static_cast<int32_t>(pos), 1));
            auto r = f->step(step);
            ASSERT_TRUE(r.ok()) << r.error().message;
            pos += n;
            got.assign(r->logits.end() - spec_.n_vocab, r->logits.end());
        }
        ASSERT_EQ(memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0);
        ASSERT_EQ(pages.bytes(), truth.bytes());
    }
}

// Passes over pages of different shapes, one after the other with the same buffers and threads.
TEST_P(ForwardCodes, BitsDoNotDependOnWhoElseUsesTheScratch) {
    open(GGML_TYPE_Q8_0);
    const auto prompt = tokens_of_codes(150, spec_.n_vocab, kForwardCodesSeed + 3);
    ForwardConfig plain_config{.n_threads = 2, .max_rows = 512};
    auto coded = forward(2);
    plain_config.scratch = coded->scratch();
    std::unique_ptr<Forward> plain = std::move(Forward::create(*model_, plain_config)).value();
    EXPECT_EQ(plain->scratch(), coded->scratch());
    const auto plain_alone = std::move(Forward::create(*model_, {.max_rows = 512})).value();
    const auto coded_alone = forward(1);
    struct Pass {
        Forward* shared;
        Forward* alone;
        PlainPages shared_pages, alone_pages;
    };
    Pass passes[] = {
        {coded.get(), coded_alone.get(), {coded->layout(), 160}, {coded->layout(), 160}},
        {plain.get(), plain_alone.get(), {plain->layout(), 160}, {plain->layout(), 160}}};
    for (size_t pos = 0, n = 1; pos < prompt.size(); pos += n, n = std::min(n * 3, size_t{70})) {
        n = std::min(n, prompt.size() - pos);
        const TokenSpan tokens = TokenSpan(prompt).subspan(pos, n);
        for (Pass& pass : passes) {
            const auto first = static_cast<int32_t>(pos);
            EXPECT_EQ(logits_over_codes(pass.shared, pass.shared_pages.sequence(tokens, first, 1)),
                      logits_over_codes(pass.alone, pass.alone_pages.sequence(tokens, first, 1)));
            EXPECT_EQ(pass.shared_pages.bytes(), pass.alone_pages.bytes());
        }
    }
    // The one that made them may go first.
    coded.reset();
    PlainPages again(plain->layout(), 160);
    PlainPages alone(plain->layout(), 160);
    EXPECT_EQ(logits_over_codes(plain.get(), again.sequence(prompt, 0, 1)),
              logits_over_codes(plain_alone.get(), alone.sequence(prompt, 0, 1)));
    for (const ForwardConfig& other : {ForwardConfig{.n_threads = 2, .max_rows = 20000},
                                       ForwardConfig{.n_threads = 1, .max_rows = 512}}) {
        ForwardConfig larger = other;
        larger.scratch = plain->scratch();
        EXPECT_EQ(Forward::create(*model_, larger).code(), Code::invalid);
    }
}

// What a cache gives back: nothing but the blocks that the layout says are needed.
TEST_P(ForwardCodes, KeptBlocksAreAllThatAPrefixNeeds) {
    open(GGML_TYPE_Q8_0);
    const auto prompt = tokens_of_codes(300, spec_.n_vocab, kForwardCodesSeed + 3);
    auto f = forward(2);
    const KvLayout& layout = f->layout();
    PlainPages truth(layout, 310);
    const auto want = logits_over_codes(f.get(), truth.sequence(prompt, 0, 1));
    for (const uint32_t cached : {64u, 128u, 192u, 256u}) {
        if (!layout.can_end(cached / kCodedBlockTokens)) continue;
        PlainPages pages(layout, 310);
        StepSequence s =
            pages.sequence(std::span(prompt).subspan(cached), static_cast<int32_t>(cached), 1);
        std::vector<std::vector<std::byte*>> tables;
        for (size_t g = 0; g < layout.groups.size(); ++g) {
            const BlockRange needed = layout.needed_blocks(g, cached);
            auto& table = tables.emplace_back();
            for (uint32_t b = 0; b < 5; ++b) {
                const bool open = b >= cached / kCodedBlockTokens;
                std::byte* slab = needed.has(b) || open ? pages.slab(g, b) : nullptr;
                table.push_back(slab);
                if (slab)  // old bytes in slots that are filled anew
                    memcpy(slab, open ? truth.slab(g, 4 - b) : truth.slab(g, b),
                           layout.slab_bytes(g));
            }
        }
        for (size_t g = 0; g < tables.size(); ++g) s.slabs[g] = tables[g].data();
        const auto got = logits_over_codes(f.get(), s);
        EXPECT_EQ(memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0) << cached;
        for (size_t g = 0; g < layout.groups.size(); ++g)
            for (uint32_t b = std::max(cached, coding_.sink_tokens) / kCodedBlockTokens;
                 layout.groups[g].keep == KvKeep::rest && b < 4; ++b)
                EXPECT_EQ(memcmp(pages.slab(g, b) + kSlabHeaderBytes,
                                 truth.slab(g, b) + kSlabHeaderBytes, layout.payload_bytes(g)),
                          0)
                    << "group " << g << " block " << b;
    }
}

INSTANTIATE_TEST_SUITE_P(
    All, ForwardCodes,
    testing::Values(ForwardCodesCase{"llama", 0, "k8v8", 64, false},
                    ForwardCodesCase{"llama", 0, "k6v4", 64, true},
                    ForwardCodesCase{"llama", 0, "k3v2", 0, false},
                    ForwardCodesCase{"gemma3", 100, "k8v8", 64, true},
                    ForwardCodesCase{"gemma3", 24, "k6v4", 0, false},
                    ForwardCodesCase{"gemma3", 150, "k3v2", 128, true},
                    ForwardCodesCase{"llama", 0, "k8v8", 64, true, true},
                    ForwardCodesCase{"qwen2", 0, "k6v4", 0, true, true},
                    ForwardCodesCase{"gemma3", 100, "k6v4", 64, true, true},
                    ForwardCodesCase{"llama", 0, "schedule", 64, true},
                    ForwardCodesCase{"gemma3", 100, "schedule", 64, true},
                    ForwardCodesCase{"llama", 0, "k3v2", 64, true, true, {1}},
                    ForwardCodesCase{"llama", 0, "k6v4", 64, true, true, {}, 0},
                    ForwardCodesCase{"qwen2", 0, "k6v4", 64, true, true, {}, 9},
                    ForwardCodesCase{"gemma3", 100, "k8v8", 64, true, true, {}, 16},
                    ForwardCodesCase{"gemma3", 100, "schedule", 64, true, false, {0, 5}},
                    ForwardCodesCase{"llama", 0, "k6v4", 64, true, true, {}, {}, 128},
                    ForwardCodesCase{"llama", 0, "k3v2", 0, false, false, {}, {}, 192},
                    ForwardCodesCase{"gemma3", 100, "k6v4", 64, true, true, {1}, {}, 128}));

TEST(KvCoding, PagesNameHowManyPairsAreTurned) {
    const KvLayout layout{.block_tokens = kCodedBlockTokens,
                          .groups = {{.layers = {0}, .kv_heads = 1, .head_dim = 64}}};
    codec::Sidecar sidecar{.layers = codec::sidecar_layers(layout)};
    for (std::vector<float>* mean : {&sidecar.k_mean, &sidecar.v_mean, &sidecar.k_mean_before})
        mean->assign(64, 1.0f);
    const Hash128 hash{1, 2};  // the same for all: what else tells them apart?
    const auto transform = [&](std::optional<uint32_t> pairs) {
        sidecar.key_pairs = pairs;
        KvCoding coding = find_kv_coding("k6v4", 64, layout).value();
        EXPECT_TRUE(take_sidecar(&coding, {sidecar, hash}, layout).ok());
        add_turns(&coding, RopeStyle::halves, 64);
        EXPECT_EQ(coding.turns == nullptr, pairs == 0u);
        return coding.transform();
    };
    EXPECT_EQ(transform(0), hash);
    EXPECT_EQ(transform(4), transform(std::nullopt));
    EXPECT_NE(transform(4), hash);
    EXPECT_NE(transform(8), transform(4));
}

TEST(KvCoding, ExactLayersKeepAllTheirBlocks) {
    KvLayout layout;
    layout.block_tokens = kCodedBlockTokens;
    layout.groups = {{.layers = {1, 3}, .kv_heads = 1, .head_dim = 64},
                     {.kind = KvKind::window,
                      .window_tokens = 100,
                      .layers = {0, 2},
                      .kv_heads = 1,
                      .head_dim = 64}};
    KvCoding coding = find_kv_coding("k4v4", 64, layout).value();
    ASSERT_TRUE(keep_exact(&coding, {3, 1, 2, 3}, layout).ok());
    EXPECT_EQ(coding.exact_layers, (std::vector<uint16_t>{1, 2, 3}));
    const KvLayout split = coding.split(layout);
    ASSERT_TRUE(split.validate().ok()) << split.validate().error().message;
    ASSERT_EQ(split.groups.size(), 4u);
    const auto expect = [&](size_t g, std::vector<uint16_t> layers, KvKeep keep, KvKind kind) {
        EXPECT_EQ(split.groups[g].layers, layers) << g;
        EXPECT_EQ(split.groups[g].keep, keep) << g;
        EXPECT_EQ(split.groups[g].kind, kind) << g;
        EXPECT_EQ(split.groups[g].pages.transform == Hash128{}, keep != KvKeep::sinks) << g;
    };
    expect(0, {1, 3}, KvKeep::all, KvKind::full);
    expect(1, {0}, KvKeep::sinks, KvKind::window);
    expect(2, {2}, KvKeep::all, KvKind::window);
    expect(3, {0}, KvKeep::rest, KvKind::window);
    EXPECT_NE(split.digest(), find_kv_coding("k4v4", 64, layout)->split(layout).digest());

    const auto refused = [&](std::vector<uint32_t> layers) {
        KvCoding fresh = find_kv_coding("k4v4", 64, layout).value();
        return keep_exact(&fresh, std::move(layers), layout).error().message;
    };
    EXPECT_NE(refused({1, 4}).find("no layer 4; this model has 4"), std::string::npos);
    EXPECT_NE(refused({0, 1, 2, 3}).find("raw16"), std::string::npos);
    KvCoding none;
    EXPECT_TRUE(keep_exact(&none, {77}, layout).ok());
}

TEST(KvCoding, AScheduleGroupsLayersByTheirWidths) {
    KvLayout layout;
    layout.block_tokens = kCodedBlockTokens;
    layout.groups = {{.layers = {0, 1, 2, 3, 4}, .kv_heads = 1, .head_dim = 64}};
    KvCoding coding = find_kv_coding("schedule", 64, layout).value();
    EXPECT_EQ(coding.name(), "schedule");
    codec::Sidecar sidecar{.layers = codec::sidecar_layers(layout)};
    KvCoding none = coding;
    EXPECT_NE(take_sidecar(&none, {sidecar, {}}, layout).error().message.find("--bits"),
              std::string::npos);
    sidecar.bits = {{8, 4}, {4, 4}, {8, 4}, {6, 2}, {4, 4}};
    ASSERT_TRUE(take_sidecar(&coding, {sidecar, {1, 2}}, layout).ok());
    const KvLayout split = coding.split(layout);
    ASSERT_TRUE(split.validate().ok());
    ASSERT_EQ(split.groups.size(), 4u);
    std::vector<std::vector<uint16_t>> layers;
    for (size_t g = 1; g < split.groups.size(); ++g) {
        EXPECT_EQ(split.groups[g].keep, KvKeep::rest);
        EXPECT_EQ(split.groups[g].pages.transform, (Hash128{1, 2}));
        layers.push_back(split.groups[g].layers);
    }
    EXPECT_THAT(layers, testing::UnorderedElementsAre(std::vector<uint16_t>{0, 2},
                                                      std::vector<uint16_t>{1, 4},
                                                      std::vector<uint16_t>{3}));
    EXPECT_LT(split.bytes_per_token(),
              find_kv_coding("k8v4", 64, layout)->split(layout).bytes_per_token());
}

TEST(KvCoding, WidthsAreJoinedUpwardsUntilThereAreGroupsForAll) {
    std::mt19937 rng(kForwardCodesSeed);
    for (const size_t groups : {1, 2}) {
        KvLayout layout;
        layout.block_tokens = kCodedBlockTokens;
        layout.groups.assign(groups, {.kv_heads = 1, .head_dim = 64});
        std::vector<codec::LayerBits> bits;
        for (uint16_t layer = 0; layer < 40; ++layer) {
            layout.groups[layer % groups].layers.push_back(layer);
            bits.push_back(
                {static_cast<uint8_t>(2 + rng() % 7), static_cast<uint8_t>(2 + rng() % 5)});
        }
        if (groups == 2) layout.groups[1].kind = KvKind::window, layout.groups[1].window_tokens = 9;
        const std::vector<codec::LayerBits> joined = join_widths(bits, layout);
        size_t left = 0;
        for (const KvGroup& group : layout.groups) {
            std::set<std::pair<int, int>> pairs;
            for (const uint16_t layer : group.layers) {
                EXPECT_GE(joined[layer].k, bits[layer].k);
                EXPECT_GE(joined[layer].v, bits[layer].v);
                pairs.insert({joined[layer].k, joined[layer].v});
            }
            left += pairs.size();
        }
        EXPECT_LE(left + groups, kMaxGroups);
        EXPECT_GT(left, groups);
        EXPECT_EQ(join_widths(joined, layout), joined);
    }
}

TEST(KvCoding, RefusesWhatCannotServeAndSaysWhatCan) {
    KvLayout layout;
    layout.block_tokens = kCodedBlockTokens;
    layout.groups = {{.layers = {0}, .kv_heads = 1, .head_dim = 64}};
    const auto refused = [&](const char* name, uint32_t sinks = 64) {
        auto coding = find_kv_coding(name, sinks, layout);
        return coding.ok() ? "accepted" : coding.error().message;
    };
    EXPECT_NE(refused("k9v9").find("nearest"), std::string::npos);
    EXPECT_NE(refused("fp8_e4m3").find("k{2..8}v{2..8}"), std::string::npos);
    EXPECT_NE(refused("k8v8", 32).find("multiple of 64"), std::string::npos);
    EXPECT_NE(refused("k8v8", 1 << 20).find("up to 4096"), std::string::npos);
    for (const char* none : {"", "raw16"}) {
        const auto coding = find_kv_coding(none, 64, layout);
        ASSERT_TRUE(coding.ok());
        EXPECT_FALSE(coding->any());
        EXPECT_EQ(coding->name(), "raw16");
    }
    EXPECT_EQ(find_kv_coding("i6r", 64, layout)->name(), "k6v6");
    layout.groups[0].head_dim = 72;
    EXPECT_NE(refused("k8v8").find("72"), std::string::npos);
}

TEST(KvCoding, SpansAreWholeBlocksWithinTheContext) {
    KvLayout layout;
    layout.block_tokens = kCodedBlockTokens;
    layout.groups = {{.layers = {0}, .kv_heads = 1, .head_dim = 64}};
    KvCoding coding = find_kv_coding("k8v8", 64, layout).value();
    const Hash128 before = coding.split(layout).digest();
    const auto refused = [&](uint32_t tokens, uint32_t most) {
        const Status status = set_recent(&coding, tokens, most);
        return status.ok() ? "accepted" : status.error().message;
    };
    EXPECT_NE(refused(100, 4096).find("multiple of 64 up to 4096, not 100"), std::string::npos);
    EXPECT_NE(refused(0, 4096).find("not 0"), std::string::npos);
    EXPECT_NE(refused(1 << 20, 1 << 20).find("up to 4096"), std::string::npos);
    EXPECT_NE(refused(1024, 1000).find("context of 1000"), std::string::npos);
    ASSERT_TRUE(set_recent(&coding, 64, 32).ok()) << "a model of few tokens, and no options";
    EXPECT_EQ(coding.split(layout).digest(), before);
    ASSERT_TRUE(set_recent(&coding, 128, 4096).ok());
    EXPECT_NE(coding.split(layout).digest(), before);
    KvCoding none;
    EXPECT_TRUE(set_recent(&none, 77, 10).ok());
}

TEST(KvCoding, RowsAreRotatedAsTheCodecDoes) {
    std::mt19937 rng(kForwardCodesSeed);
    for (const uint32_t d : {16u, 64u, 80u, 96u, 128u, 192u, 256u}) {
        std::vector<float> row(d), mean(d), decoded(d);
        for (float& x : row) x = static_cast<float>(static_cast<int>(rng() % 2000) - 1000) / 100.0f;
        for (float& x : mean) x = static_cast<float>(rng() % 100) / 100.0f;
        const codec::CodecSpec spec = codec::find_codec("k8v8").value();
        const codec::Geometry geometry{d, 1, 16};
        alignas(codec::kPageAlign) std::array<std::byte, 16384> page{};
        const codec::PageCodecOps& ops = codec::row_of(spec).ops().front();
        const codec::HeadSidecar sidecar{.k_mean = mean.data()};
        ops.encode({.spec = spec,
                    .geometry = geometry,
                    .sidecar = sidecar,
                    .k = row.data(),
                    .last = 1,
                    .page = page.data()});
        ops.decode({.spec = spec,
                    .geometry = geometry,
                    .sidecar = sidecar,
                    .page = page.data(),
                    .original_space = false,
                    .k = decoded.data(),
                    .last = 1});
        to_codec_space(mean.data(), d, row.data());
        EXPECT_LT(rms_distance(row, decoded), 0.1) << d;
    }
}

}  // namespace
}  // namespace quire
