// fp4 against the formats' definitions; conformance_test.cc has what every codec keeps.
#include "codec/fp4/fp4.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "codec/testing/pages.h"

namespace quire::codec {
namespace {

using namespace testing;

constexpr Geometry kGeometry{.head_dim = 64};

struct Coded {
    Page page;
    Decoded out;
};

// A page with `row` at token 0 of V, through a codec and back, scale 1 above all blocks.
Coded through(const char* name, const std::vector<float>& row, const PageCodecOps& ops) {
    const CodecSpec spec = *find_codec(name);
    Rows rows(kGeometry, Kind::zeros, 1);
    std::copy(row.begin(), row.end(), rows.v.begin());
    Coded coded{Page(spec, kGeometry, 0), {}};
    const size_t numbers = rows.v.size();
    coded.out = {std::vector<float>(numbers), std::vector<float>(numbers)};
    ops.encode({.spec = spec,
                .geometry = kGeometry,
                .k = rows.k.data(),
                .v = rows.v.data(),
                .k_stride = 64,
                .v_stride = 64,
                .first = 0,
                .last = 16,
                .page = coded.page.data()});
    ops.decode({.spec = spec,
                .geometry = kGeometry,
                .page = coded.page.data(),
                .k = coded.out.k.data(),
                .v = coded.out.v.data(),
                .k_stride = 64,
                .v_stride = 64,
                .first = 0,
                .last = 16});
    return coded;
}

std::span<const PageCodecOps> ops_of(const char* name) {
    return row_of(*find_codec(name)).ops();
}

// The largest number is 6, so that the step is 1.
TEST(Fp4, RoundsToTheNearestTiesToTheEvenCode) {
    const std::vector<float> in = {6.0f,  0.25f, 0.26f, 0.75f, -1.25f, 1.26f, 1.75f,  2.5f,
                                   2.51f, -3.5f, 5.0f,  5.01f, 0.24f,  -0.0f, 1e-30f, -0.74f};
    const std::vector<float> expected = {6.0f, 0.0f,  0.5f, 1.0f, -1.0f, 1.5f,  2.0f, 2.0f,
                                         3.0f, -4.0f, 4.0f, 6.0f, 0.0f,  -0.0f, 0.0f, -0.5f};
    for (const char* name : {"nvfp4", "mxfp4"})
        for (const PageCodecOps& ops : ops_of(name)) {
            if (!ops.cpu_has_it()) continue;
            const Decoded out = through(name, in, ops).out;
            for (size_t i = 0; i < in.size(); ++i) {
                EXPECT_EQ(out.v[i], expected[i]) << name << " " << ops.name << " " << i;
                EXPECT_EQ(std::signbit(out.v[i]), std::signbit(in[i])) << name << " " << i;
            }
        }
}

TEST(Fp4, FourOverSixTakesTheScaleWithLessError) {
    // 8 and 6 of a step of 2 are 4 and 3; under 8/6 the second number would miss.
    const std::vector<float> in = {8.0f, 6.0f};
    const PageCodecOps& ops = ops_of("nvfp4")[0];
    EXPECT_NE(through("nvfp4", in, ops).out.v[1], 6.0f);
    const Decoded better = through("nvfp4_4over6", in, ops).out;
    EXPECT_EQ(better.v[0], 8.0f);
    EXPECT_EQ(better.v[1], 6.0f);
    const Rows rows({.head_dim = 128}, Kind::normal, 9);
    const auto error = [&](const char* name) {
        const CodecSpec spec = *find_codec(name);
        Page page(spec, rows.g, 0);
        encode(ops, spec, rows, page);
        return relative_error(rows, rows.k, decode(ops, spec, rows, page).k);
    };
    EXPECT_LT(error("nvfp4_4over6"), error("nvfp4"));
}

TEST(Fp4, TheBytesLieAsTheReadmeSays) {
    std::vector<float> in(64);
    for (int block = 0; block < 4; ++block) {
        in[16 * block] = 6.0f * static_cast<float>(1 << block);
        in[16 * block + 1] = -in[16 * block];
    }
    const Coded nv = through("nvfp4", in, ops_of("nvfp4")[0]);
    const std::byte* v = nv.page.data() + 16 * (32 + 4);
    EXPECT_EQ(v[0], std::byte{0xf7});  // 6 below, -6 above
    EXPECT_EQ(v[8], std::byte{0xf7});
    // V's scales of token 0 lie at tokens 0 to 3, place 0; E4M3 of 1, 2, 4, 8.
    const std::byte* scales = v + size_t{16} * 32;
    for (int block = 0; block < 4; ++block)
        EXPECT_EQ(static_cast<int>(scales[4 * block]), 0x38 + 8 * block);

    const Coded mx = through("mxfp4", in, ops_of("mxfp4")[0]);
    const std::byte* mx_scales = mx.page.data() + 16 * (32 + 2) + size_t{16} * 32;
    EXPECT_EQ(static_cast<int>(mx_scales[0]), 127 + 1);  // 12 = 6 * 2^1
    EXPECT_EQ(static_cast<int>(mx_scales[1]), 127 + 3);
    EXPECT_EQ(mx.out.v, nv.out.v);
}

TEST(Fp4, ShuffledScalesHaveAPlaceEach) {
    for (const uint32_t head_dim : {64u, 128u, 192u, 256u}) {
        const Geometry g{.head_dim = head_dim, .block_tokens = 32};
        const fp4::Side side = fp4::v_side(fp4::Kind::nvfp4, g, {});
        ASSERT_TRUE(side.is_shuffled);
        std::vector<int> hits(size_t{32} * head_dim / 16);
        for (uint32_t t = 0; t < 32; ++t)
            for (uint32_t b = 0; b < head_dim / 16; ++b)
                ++hits.at(fp4::scale_at(side, fp4::Kind::nvfp4, g, t, b) - side.scales);
        EXPECT_EQ(std::ranges::count(hits, 1), static_cast<long>(hits.size())) << head_dim;
    }
    EXPECT_FALSE(fp4::v_side(fp4::Kind::nvfp4, {.head_dim = 80}, {}).is_shuffled);
}

TEST(Fp4, ANanIsZeroAndSpoilsNoNeighbour) {
    for (const char* name : {"nvfp4", "nvfp4_4over6", "mxfp4"})
        for (const PageCodecOps& ops : ops_of(name)) {
            if (!ops.cpu_has_it()) continue;
            const Decoded out = through(name, {NAN, 6.0f, INFINITY, -1.0f}, ops).out;
            EXPECT_EQ(out.v[0], 0.0f) << name;
            EXPECT_EQ(out.v[1], 6.0f) << name;
            EXPECT_EQ(out.v[2], 6.0f) << name;
            EXPECT_EQ(out.v[3], -1.0f) << name;
        }
}

// Relative errors of normal numbers: facts about the formats, known from elsewhere.
TEST(Fp4, ErrorOfNormalRows) {
    for (const auto& [name, expected] :
         {std::pair{"nvfp4", 9.1e-3}, {"nvfp4_4over6", 7.5e-3}, {"mxfp4", 1.32e-2}}) {
        const CodecSpec spec = *find_codec(name);
        const Rows rows({.head_dim = 128, .block_tokens = 256}, Kind::normal, 5);
        Page page(spec, rows.g, 0);
        const PageCodecOps& ops = best_ops(row_of(spec));
        encode(ops, spec, rows, page);
        EXPECT_NEAR(relative_error(rows, rows.k, decode(ops, spec, rows, page).k) / expected, 1,
                    0.04)
            << name;
    }
}

}  // namespace
}  // namespace quire::codec
