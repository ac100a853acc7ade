// fp8 against the formats' definitions; conformance_test.cc has what every codec keeps.
#include "codec/fp8/fp8.h"

#include <gtest/gtest.h>

#include "codec/testing/pages.h"

namespace quire::codec {
namespace {

using namespace testing;

constexpr Geometry kGeometry{.head_dim = 16};

// The first row of V through a codec and back.
std::vector<float> through(const char* name, const std::vector<float>& row) {
    const CodecSpec spec = *find_codec(name);
    Rows rows(kGeometry, Kind::zeros, 1);
    std::copy(row.begin(), row.end(), rows.v.begin());
    const PageCodecOps& ops = best_ops(row_of(spec));
    Page page(spec, kGeometry, 0);
    encode(ops, spec, rows, page);
    const Decoded out = decode(ops, spec, rows, page);
    return {out.v.begin(), out.v.begin() + static_cast<long>(row.size())};
}

TEST(Fp8, E4m3RoundsToEvenAndSaturates) {
    const std::vector<float> out =
        through("fp8_e4m3", {1.0f, 1.0625f, 1.1875f, 449.0f, 1e9f, -INFINITY, 0x1p-9f, 0x1p-10f,
                             0x1.8p-9f, 0x1.fp-7f, 240.0f, -0.0f, 464.0f, 0x1p-6f});
    const std::vector<float> expected = {1.0f, 1.0f,    1.25f,   448.0f, 448.0f, -448.0f, 0x1p-9f,
                                         0.0f, 0x1p-8f, 0x1p-6f, 240.0f, -0.0f,  448.0f,  0x1p-6f};
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], expected[i]) << i;
    EXPECT_TRUE(std::signbit(out[11]));
}

TEST(Fp8, E5m2RoundsToEvenAndSaturates) {
    const std::vector<float> out = through(
        "fp8_e5m2", {1.0f, 1.125f, 1.375f, 60000.0f, INFINITY, 0x1p-16f, 0x1p-17f, 0x1.8p-16f});
    const std::vector<float> expected = {1.0f,     1.0f,     1.5f, 57344.0f,
                                         57344.0f, 0x1p-16f, 0.0f, 0x1p-15f};
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], expected[i]) << i;
}

TEST(Fp8, ANanStaysOneAndSpoilsNoNeighbour) {
    for (const char* name : {"fp8_e4m3", "fp8_e4m3_token", "fp8_e5m2_token"}) {
        const std::vector<float> out = through(name, {NAN, 2.0f, INFINITY, -1.0f});
        EXPECT_TRUE(std::isnan(out[0])) << name;
        EXPECT_NEAR(out[1], 2.0f, 0.002f) << name;
        EXPECT_NEAR(out[3], -1.0f, 0.001f) << name;
        EXPECT_TRUE(std::isfinite(out[2])) << name;
    }
}

TEST(Fp8, EveryCodeDecodesAndEncodesToItself) {
    for (const char* name : {"fp8_e4m3", "fp8_e5m2"}) {
        const CodecSpec spec = *find_codec(name);
        Rows rows({.head_dim = 128}, Kind::zeros, 1);
        for (const PageCodecOps& ops : row_of(spec).ops()) {
            if (!ops.cpu_has_it()) continue;
            Page codes(spec, rows.g, 0), again(spec, rows.g, 0);
            for (int i = 0; i < 256; ++i) codes.data()[128 * 16 + i] = static_cast<std::byte>(i);
            const Decoded out = decode(ops, spec, rows, codes);
            rows.v = out.v;
            encode(ops, spec, rows, again);
            for (int i = 0; i < 256; ++i) {
                const bool number = (i & 0x7f) < (name == std::string("fp8_e4m3") ? 0x7f : 0x7c);
                const int back = static_cast<int>(again.data()[128 * 16 + i]);
                if (number) {
                    EXPECT_EQ(back, i) << name << " " << ops.name;
                }
                EXPECT_EQ(std::isfinite(out.v[i]), number) << name << " " << i;
            }
        }
    }
}

// Relative error of normal numbers, by the rows' scale.
TEST(Fp8, ErrorOfNormalRows) {
    for (const auto& [name, bound] :
         {std::pair{"fp8_e4m3", 7.3e-4}, {"fp8_e4m3_token", 7.3e-4}, {"fp8_e5m2", 2.95e-3}}) {
        const CodecSpec spec = *find_codec(name);
        const Rows rows({.head_dim = 128, .block_tokens = 256}, Kind::normal, 5);
        Page page(spec, rows.g, 0);
        const PageCodecOps& ops = best_ops(row_of(spec));
        encode(ops, spec, rows, page);
        EXPECT_LT(relative_error(rows, rows.k, decode(ops, spec, rows, page).k), bound) << name;
    }
}

}  // namespace
}  // namespace quire::codec
