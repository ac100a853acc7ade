// What every codec promises, over the whole table: a new row is tested the moment it exists.
#include <algorithm>

#include <gtest/gtest.h>

#include "codec/testing/pages.h"

namespace quire::codec {
namespace {

using namespace testing;

constexpr uint64_t kSeed = 40961;

// Sanitizers make the oracles slow.
#ifdef QUIRE_SANITIZED
constexpr uint32_t kHeadDims[] = {64, 80, 256};
#else
constexpr uint32_t kHeadDims[] = {64, 80, 96, 112, 128, 192, 256};
#endif

std::vector<Geometry> geometries(const CodecSpec& spec) {
    std::vector<Geometry> fitting;
    for (const uint32_t head_dim : kHeadDims) {
        const Geometry g{.head_dim = head_dim,
                         .kv_heads = 1 + head_dim % 15,
                         .block_tokens = head_dim % 3 == 0 ? 16u : 32u,
                         .element = head_dim % 5 == 0 ? Element::bf16 : Element::f16};
        if (row_of(spec).unsupported(spec, g) == nullptr) fitting.push_back(g);
    }
    return fitting;
}

std::string shape_text(const Geometry& g) {
    return "head_dim " + std::to_string(g.head_dim) + " block " + std::to_string(g.block_tokens) +
           " seed " + std::to_string(kSeed);
}

// All of them where oracles are fast.
std::span<const Kind> kinds(const Geometry& g) {
    constexpr size_t kFew = 3;
    const std::span<const Kind> all = kKinds;
    return g.head_dim <= 80 ? all : all.first(kFew);
}

class EveryCodec : public ::testing::TestWithParam<CodecSpec> {
 protected:
    CodecSpec spec = GetParam();
    const CodecRow& row = row_of(spec);
    const PageCodecOps& oracle = row.ops()[0];
    bool tokens = row.unit == Unit::token;
};

TEST_P(EveryCodec, FitsSomeShapeAndSaysWhyItDoesNotFitOthers) {
    EXPECT_FALSE(geometries(spec).empty());
    for (const Geometry& bad :
         {Geometry{.head_dim = 0}, Geometry{.head_dim = 65}, Geometry{.head_dim = 2048},
          Geometry{.head_dim = 64, .kv_heads = 0}, Geometry{.head_dim = 64, .block_tokens = 8},
          Geometry{.head_dim = 64, .block_tokens = 272}}) {
        const Status status = check_geometry(spec, bad);
        ASSERT_EQ(status.code(), Code::unsupported);
        EXPECT_NE(status.error().message.find(std::to_string(bad.head_dim)), std::string::npos);
    }
}

TEST_P(EveryCodec, RoundTripErrorFallsWithItsBits) {
    for (const Geometry& g : geometries(spec)) {
        SCOPED_TRACE(shape_text(g));
        const Rows rows(g, Kind::normal, kSeed);
        Page page(spec, g, 0);
        EXPECT_EQ(encode(oracle, spec, rows, page, true), 0u);
        const Decoded out = decode(oracle, spec, rows, page, true, true);
        // The ideal is 4^-bits, the geometric mean of what K and V have; floats spend bits on range
        // that normal numbers do not use.
        const double ideal = std::pow(4.0, -std::min(bits_per_element(spec, g), 10.0));
        const double error =
            std::sqrt(relative_error(rows, rows.k, out.k) * relative_error(rows, rows.v, out.v));
        EXPECT_LT(error, 256 * ideal);
        if (!row.can.lossless) {
            EXPECT_GT(error, ideal / 4);
        }
    }
}

TEST_P(EveryCodec, InstructionSetsAgreeBitForBit) {
    for (const Geometry& g : geometries(spec))
        for (const Kind kind : kinds(g)) {
            SCOPED_TRACE(shape_text(g) + " kind " + std::to_string(static_cast<int>(kind)));
            const bool means = kind != Kind::zeros && kind != Kind::minus_zeros;
            const Rows rows(g, kind, kSeed);
            Page expected(spec, g, 0);
            const uint32_t not_finite = encode(oracle, spec, rows, expected, means);
            const Decoded coded = decode(oracle, spec, rows, expected, false, means);
            const Decoded original = decode(oracle, spec, rows, expected, true, means);
            for (const PageCodecOps& ops : row.ops()) {
                if (!ops.cpu_has_it()) continue;
                SCOPED_TRACE(ops.name);
                Page page(spec, g, 0xff);  // what was there does not matter
                ASSERT_EQ(encode(ops, spec, rows, page, means), not_finite);
                ASSERT_TRUE(page == expected);
                ASSERT_TRUE(page.guards_hold());
                ASSERT_TRUE(decode(ops, spec, rows, page, false, means) == coded);
                ASSERT_TRUE(decode(ops, spec, rows, page, true, means) == original);
            }
        }
}

TEST_P(EveryCodec, TokensInAnyOrderMakeTheSamePage) {
    if (!tokens) GTEST_SKIP() << "whole tiles only";
    for (const Geometry& g : geometries(spec)) {
        SCOPED_TRACE(shape_text(g));
        const Rows rows(g, Kind::normal, kSeed + 1);
        Page whole(spec, g, 0);
        encode(oracle, spec, rows, whole);
        for (const PageCodecOps& ops : row.ops()) {
            if (!ops.cpu_has_it()) continue;
            SCOPED_TRACE(ops.name);
            Page page(spec, g, 0);
            std::mt19937_64 rng(kSeed);
            std::vector<uint32_t> cuts = {0, g.block_tokens, 1, 17 % g.block_tokens, 13};
            std::ranges::sort(cuts);
            std::vector<size_t> order = {0, 1, 2, 3};
            std::ranges::shuffle(order, rng);
            for (const size_t i : order) encode(ops, spec, rows, page, false, cuts[i], cuts[i + 1]);
            EXPECT_TRUE(page == whole);
        }
    }
}

// A slot's life: runs of tokens are written over each other at random; the model is a page that the
// oracle writes one token at a time.
TEST_P(EveryCodec, RandomWritesMatchTheOracleTokenByToken) {
    if (!tokens) GTEST_SKIP() << "whole tiles only";
    const Geometry g = geometries(spec).front();
    for (const PageCodecOps& ops : row.ops()) {
        if (!ops.cpu_has_it() || ops.isa == Isa::ref) continue;
        std::mt19937_64 rng(kSeed);
        Page page(spec, g, 0), model(spec, g, 0);
        for (int round = 0; round < 12; ++round) {
            const Rows rows(g, kKinds[rng() % std::size(kKinds)], rng());
            uint32_t first = rng() % g.block_tokens, last = rng() % (g.block_tokens + 1);
            if (first > last) std::swap(first, last);
            encode(ops, spec, rows, page, false, first, last);
            for (uint32_t t = first; t < last; ++t)
                encode(oracle, spec, rows, model, false, t, t + 1);
            ASSERT_TRUE(page == model) << ops.name << " round " << round << " seed " << kSeed;
        }
    }
}

TEST_P(EveryCodec, AbsentTokensAreZeroAndUntouched) {
    if (!tokens) GTEST_SKIP() << "whole tiles only";
    for (const Geometry& g : geometries(spec)) {
        SCOPED_TRACE(shape_text(g));
        const Rows rows(g, Kind::normal, kSeed + 2);
        for (const PageCodecOps& ops : row.ops()) {
            if (!ops.cpu_has_it()) continue;
            SCOPED_TRACE(ops.name);
            Page page(spec, g, 0);
            encode(ops, spec, rows, page, false, 3, 10);
            const Decoded out = decode(ops, spec, rows, page, false);
            for (uint32_t t = 0; t < g.block_tokens; ++t) {
                float sum = 0;
                for (uint32_t d = 0; d < g.head_dim; ++d)
                    sum +=
                        std::fabs(out.k[t * g.head_dim + d]) + std::fabs(out.v[t * g.head_dim + d]);
                EXPECT_EQ(sum != 0, t >= 3 && t < 10) << t;
            }
            // A decode of some tokens is the same and writes those only.
            const Decoded some = decode(ops, spec, rows, page, false, false, 2, 5);
            for (size_t i = 0; i < some.k.size(); ++i) {
                const bool inside = i / g.head_dim >= 2 && i / g.head_dim < 5;
                ASSERT_EQ(some.k[i], inside ? out.k[i] : kUntouched);
                ASSERT_EQ(some.v[i], inside ? out.v[i] : kUntouched);
            }
        }
    }
}

TEST_P(EveryCodec, HeadsMayLieBesideEachOther) {
    for (const uint32_t heads : {1u, 2u, 3u, 16u}) {
        Geometry g = geometries(spec).front();
        g.kv_heads = heads;
        const Rows apart(g, Kind::normal, kSeed + 3);
        const Rows beside(g, Kind::normal, kSeed + 3, size_t{heads} * g.head_dim);
        for (const PageCodecOps& ops : row.ops()) {
            if (!ops.cpu_has_it()) continue;
            Page a(spec, g, 0), b(spec, g, 0);
            EXPECT_EQ(encode(ops, spec, apart, a), 0u);
            EXPECT_EQ(encode(ops, spec, beside, b), 0u);
            EXPECT_TRUE(a == b) << ops.name << " " << heads << " heads";
        }
    }
}

TEST_P(EveryCodec, RowsThatAreNotFinitePoisonNoOther) {
    for (const Geometry& g : geometries(spec)) {
        SCOPED_TRACE(shape_text(g));
        const Rows rows(g, Kind::not_finite, kSeed + 4);
        Page page(spec, g, 0);
        const uint32_t counted = encode(oracle, spec, rows, page);
        Rows without = rows;
        uint32_t expected = 0;
        std::vector<bool> good(g.block_tokens, true);
        for (uint32_t t = 0; t < g.block_tokens; ++t)
            if (t % 3 == 1 || t % 4 == 2) {
                good[t] = false;
                expected += 2;  // K's and V's
                std::fill_n(without.k.begin() + t * rows.stride, g.head_dim, 0.0f);
                std::fill_n(without.v.begin() + t * rows.stride, g.head_dim, 0.0f);
            }
        EXPECT_EQ(counted, expected);
        if (!tokens) continue;
        Page clean(spec, g, 0);
        EXPECT_EQ(encode(oracle, spec, without, clean), 0u);
        const Decoded a = decode(oracle, spec, rows, page), b = decode(oracle, spec, rows, clean);
        for (size_t i = 0; i < a.k.size(); ++i)
            if (good[i / g.head_dim]) {
                ASSERT_EQ(a.k[i], b.k[i]);
                ASSERT_EQ(a.v[i], b.v[i]);
            }
    }
}

TEST_P(EveryCodec, AnyBytesDecodeToTheSameOnEveryInstructionSet) {
    const Geometry g = geometries(spec).back();
    const Rows rows(g, Kind::normal, kSeed);
    std::mt19937_64 rng(kSeed);
    for (int round = 0; round < 8; ++round) {
        Page page(spec, g, 0);
        for (size_t i = 0; i < page.size(); ++i) page.data()[i] = static_cast<std::byte>(rng());
        const Decoded expected = decode(oracle, spec, rows, page);
        for (const PageCodecOps& ops : row.ops())
            if (ops.cpu_has_it()) {
                EXPECT_TRUE(decode(ops, spec, rows, page) == expected)
                    << ops.name << " round " << round << " seed " << kSeed;
            }
    }
}

std::string test_name(const ::testing::TestParamInfo<CodecSpec>& info) {
    std::string name = codec_name(info.param);
    std::erase_if(name, [](char c) { return !isalnum(static_cast<unsigned char>(c)); });
    return name;
}
INSTANTIATE_TEST_SUITE_P(Table, EveryCodec, ::testing::ValuesIn(every_codec()), test_name);

}  // namespace
}  // namespace quire::codec
