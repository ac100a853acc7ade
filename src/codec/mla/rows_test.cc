#include "codec/mla/rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace quire::codec::mla {
namespace {

using V32Row = std::array<float, kV32Numbers>;
using V32Coded = std::array<std::byte, kV32Bytes>;
using V4Row = std::array<float, kV4Numbers>;

template <class Row>
Row normal_row(uint64_t seed) {
    std::mt19937_64 rng(seed);
    std::normal_distribution<float> normal;
    Row row;
    for (float& x : row) x = normal(rng);
    return row;
}

float float_at(const std::byte* p) {
    float x;
    std::memcpy(&x, p, sizeof(x));
    return x;
}

double latent_error(std::span<const float> a, std::span<const float> b) {
    double error = 0, energy = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        error += (a[i] - b[i]) * (a[i] - b[i]);
        energy += a[i] * a[i];
    }
    return error / energy;
}

TEST(MlaRows, V32BytesLieAsTheReadmeSays) {
    V32Row row{};
    row[0] = 448.0f;  // scale 1
    row[1] = -1.0f;
    row[128] = 449.0f;  // just above: scale 2
    row[384] = 1e-9f;   // the floor, 2^-13
    row[512] = 1.0f;
    row[575] = -2.0f;
    V32Coded out;
    EXPECT_TRUE(encode_v32(row, TileScale::power_of_two, out));
    EXPECT_EQ(out[0], std::byte{0x7e});
    EXPECT_EQ(out[1], std::byte{0xb8});
    EXPECT_EQ(float_at(out.data() + 512), 1.0f);
    EXPECT_EQ(float_at(out.data() + 516), 2.0f);
    EXPECT_EQ(float_at(out.data() + 524), 0x1p-13f);
    EXPECT_EQ(out[528], std::byte{0x80});  // bf16 of 1: 0x3f80
    EXPECT_EQ(out[529], std::byte{0x3f});
    EXPECT_EQ(out[655], std::byte{0xc0});

    EXPECT_TRUE(encode_v32(row, TileScale::exact, out));
    EXPECT_EQ(float_at(out.data() + 516), 449.0f / 448.0f);
    EXPECT_EQ(out[128], std::byte{0x7e});
    EXPECT_EQ(float_at(out.data() + 520), 0x1p-126f);
}

TEST(MlaRows, V4BytesLieAsTheReadmeSays) {
    EXPECT_EQ(v4_block_bytes(64), 64u * 584 + 64);  // 37,440 = 65 * 576
    EXPECT_EQ(v4_block_bytes(64) % 576, 0u);
    V4Row row{};
    row[0] = 448.0f;
    row[64] = 3.5f;  // 448 / 128
    row[448] = 1.0f;
    std::vector<std::byte> block(v4_block_bytes(64), std::byte{0xff});
    EXPECT_TRUE(encode_v4(row, 64, 5, block));
    EXPECT_EQ(block[5 * 576], std::byte{0x7e});
    EXPECT_EQ(block[5 * 576 + 449], std::byte{0x3f});
    const std::byte* scales = block.data() + size_t{64} * 576 + size_t{5} * 8;
    EXPECT_EQ(static_cast<int>(scales[0]), 127);
    EXPECT_EQ(static_cast<int>(scales[1]), 127 - 7);
    EXPECT_EQ(static_cast<int>(scales[2]), 127 - 22);  // at least 10^-4 / 448
    EXPECT_EQ(static_cast<int>(scales[7]), 0);
    EXPECT_EQ(block[4 * 576], std::byte{0xff});  // others are untouched
    EXPECT_EQ(scales[8], std::byte{0xff});
}

TEST(MlaRows, RoundTripsLoseWhatE4m3Loses) {
    const auto v32 = normal_row<V32Row>(1);
    V32Coded out;
    V32Row back;
    for (const TileScale scale : {TileScale::power_of_two, TileScale::exact}) {
        EXPECT_TRUE(encode_v32(v32, scale, out));
        decode_v32(out, back);
        EXPECT_LT(latent_error(std::span(v32).first(512), std::span(back).first(512)), 8e-4);
        EXPECT_LT(latent_error(std::span(v32).last(64), std::span(back).last(64)), 6e-6);
    }
    std::vector<std::byte> block(v4_block_bytes(3));
    for (const uint32_t token : {2u, 0u, 1u})
        EXPECT_TRUE(encode_v4(normal_row<V4Row>(token), 3, token, block));
    for (const uint32_t token : {0u, 1u, 2u}) {
        const auto row = normal_row<V4Row>(token);
        V4Row again;
        decode_v4(block, 3, token, again);
        EXPECT_LT(latent_error(std::span(row).first(448), std::span(again).first(448)), 8e-4);
        EXPECT_LT(latent_error(std::span(row).last(64), std::span(again).last(64)), 6e-6);
    }
}

TEST(MlaRows, ANumberThatIsNotFiniteSpoilsNoOther) {
    auto row = normal_row<V32Row>(2);
    const V32Row clean = row;
    row[3] = NAN;
    row[4] = INFINITY;
    V32Coded out;
    V32Row back;
    EXPECT_FALSE(encode_v32(row, TileScale::power_of_two, out));
    decode_v32(out, back);
    EXPECT_TRUE(std::isnan(back[3]));
    EXPECT_TRUE(std::isfinite(back[4]));
    for (size_t i = 5; i < 512; ++i)
        EXPECT_NEAR(back[i], clean[i], 0.1 * std::fabs(clean[i]) + 1e-3);
}

}  // namespace
}  // namespace quire::codec::mla
