// Every format on every instruction set of this CPU against the oracle, and the oracle against
// float arithmetic over ggml's own dequantisation.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <ggml-cpu.h>
#include <ggml.h>
#include <gtest/gtest.h>

#include "engine/model/packed/pack.h"
#include "engine/model/packed/product.h"
#include "engine/model/packed/rows.h"

namespace quire::packed {
namespace {

constexpr int64_t kIn = 768;
constexpr int64_t kOut = 48;
constexpr ggml_type kTypes[] = {GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1,
                                GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K};

struct Case {
    Layout layout;
    std::vector<float> dense;  // [kOut][kIn], as ggml reads the weights back
    std::vector<std::byte> packed;
    std::vector<float> inputs;  // [rows][kIn]
};

// Rows from `first` on as tiles: slot 0 is row `first`.
std::vector<std::byte> tiles_of(const ProductOps& ops, const Case& c, int32_t first, int32_t n) {
    std::vector<std::byte> tiles(rows_bytes(kIn, n));
    for (int32_t r = 0; r < n; ++r)
        ops.quantise_row(c.inputs.data() + (first + r) * kIn, kIn,
                         tiles.data() + static_cast<size_t>(r / kTileRows) * tile_bytes(kIn),
                         r % kTileRows);
    return tiles;
}

Case make_case(ggml_type type, int32_t n_rows) {
    ggml_cpu_init();
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    Case c;
    std::vector<float> weights(kIn * kOut);
    for (float& w : weights) w = normal(random);
    const size_t bytes = ggml_row_size(type, kIn);
    std::vector<std::byte> quantised(bytes * kOut);
    ggml_quantize_chunk(type, weights.data(), quantised.data(), 0, kOut, kIn, nullptr);
    c.dense.resize(weights.size());
    ggml_get_type_traits(type)->to_float(quantised.data(), c.dense.data(), kIn * kOut);
    c.layout = layout_for(type, kIn, kOut).value();
    c.packed.resize(packed_bytes(c.layout, kIn, kOut));
    pack(type, quantised.data(), bytes, kIn, kOut, c.packed.data());
    c.inputs.resize(static_cast<size_t>(n_rows * kIn));
    for (float& x : c.inputs) x = normal(random);
    return c;
}

std::vector<float> multiply(const ProductOps& ops, const Case& c, int32_t first, int32_t n_rows) {
    const std::vector<std::byte> tiles = tiles_of(ops, c, first, n_rows);
    std::vector<float> out(static_cast<size_t>(n_rows * kOut));
    const size_t bytes = group_bytes(c.layout, kIn);
    for (int32_t r = 0; r < n_rows; r += kTileRows)
        for (int64_t g = 0; g < kOut / kOutputs; ++g)
            ops.multiply(
                {.layout = c.layout,
                 .group = c.packed.data() + static_cast<size_t>(g) * bytes,
                 .n_in = kIn,
                 .tile = tiles.data() + static_cast<size_t>(r / kTileRows) * tile_bytes(kIn),
                 .n_rows = std::min(kTileRows, n_rows - r),
                 .out = out.data() + r * kOut + g * kOutputs,
                 .out_stride = kOut});
    return out;
}

bool same_bits(const std::vector<float>& a, const float* b) {
    return std::memcmp(a.data(), b, a.size() * sizeof(float)) == 0;
}

class Packed : public testing::TestWithParam<ggml_type> {};

TEST_P(Packed, TheOracleIsFloatArithmeticUpToSixteenBitActivations) {
    const int32_t n = 3;
    const Case c = make_case(GetParam(), n);
    const std::vector<float> out = multiply(product_table()[0], c, 0, n);
    for (int32_t r = 0; r < n; ++r) {
        for (int64_t i = 0; i < kOut; ++i) {
            double want = 0;
            double size = 0;
            for (int64_t k = 0; k < kIn; ++k) {
                const double term = double{c.dense[static_cast<size_t>(i * kIn + k)]} *
                                    c.inputs[static_cast<size_t>(r * kIn + k)];
                want += term;
                size += term * term;
            }
            // Steps of 1/32767 of the largest of 32: some 3e-5 of the product's spread, and float32
            // sums.
            EXPECT_NEAR(out[static_cast<size_t>(r * kOut + i)], want, 2e-4 * std::sqrt(size));
        }
    }
}

TEST_P(Packed, ARowReadBackIsTheRowThatGgmlReads) {
    const Case c = make_case(GetParam(), 1);
    std::vector<float> row(kIn);
    for (int64_t i = 0; i < kOut; ++i) {
        unpack_row(c.layout, c.packed.data(), kIn, i, row.data());
        // ggml's compiler may fuse code * d + m, so the last bit is its own.
        for (int64_t k = 0; k < kIn; ++k)
            EXPECT_NEAR(row[static_cast<size_t>(k)], c.dense[static_cast<size_t>(i * kIn + k)],
                        c.layout.scales == Scales::d ? 0 : 1e-6f);
    }
}

TEST_P(Packed, EveryInstructionSetGivesTheOraclesBits) {
    constexpr int32_t kRows = 15;  // 8 + 4 + 2 + 1
    const Case c = make_case(GetParam(), kRows);
    const std::vector<float> want = multiply(product_table()[0], c, 0, kRows);
    for (const ProductOps& ops : product_table()) {
        if (!ops.cpu_has_it()) continue;
        EXPECT_TRUE(same_bits(multiply(ops, c, 0, kRows), want.data())) << ops.name;
    }
}

TEST_P(Packed, ARowsBitsDoNotDependOnItsNeighbours) {
    constexpr int32_t kRows = 19;
    const Case c = make_case(GetParam(), kRows);
    for (const ProductOps& ops : product_table()) {
        if (!ops.cpu_has_it()) continue;
        const std::vector<float> all = multiply(ops, c, 0, kRows);
        for (int32_t r = 0; r < kRows; ++r) {
            for (int32_t n : {1, 2, 3, 4, 5, 7, 8, 9}) {
                if (r + n > kRows) continue;
                ASSERT_TRUE(same_bits(multiply(ops, c, r, n), all.data() + r * kOut))
                    << ops.name << ": row " << r << " of " << n;
            }
        }
    }
}

TEST_P(Packed, ExtremeActivationsDoNotOverflowTheSums) {
    Case c = make_case(GetParam(), 2);
    for (int64_t k = 0; k < kIn; ++k) {
        c.inputs[static_cast<size_t>(k)] = 1.0f;
        c.inputs[static_cast<size_t>(kIn + k)] = k % 2 == 0 ? 1e30f : -1e30f;
    }
    const std::vector<float> want = multiply(product_table()[0], c, 0, 2);
    double sum = 0;
    for (int64_t k = 0; k < kIn; ++k) sum += double{c.dense[static_cast<size_t>(k)]};
    EXPECT_NEAR(want[0], sum, 1e-3);
    for (const ProductOps& ops : product_table()) {
        if (!ops.cpu_has_it()) continue;
        EXPECT_TRUE(same_bits(multiply(ops, c, 0, 2), want.data())) << ops.name;
    }
}

TEST_P(Packed, ZerosGiveZerosAndANanStaysInItsRow) {
    Case c = make_case(GetParam(), 3);
    std::fill(c.inputs.begin(), c.inputs.begin() + kIn, 0.0f);
    c.inputs[static_cast<size_t>(kIn) + 5] = NAN;
    for (const ProductOps& ops : product_table()) {
        if (!ops.cpu_has_it()) continue;
        const std::vector<float> out = multiply(ops, c, 0, 3);
        for (int64_t i = 0; i < kOut; ++i) {
            EXPECT_EQ(out[static_cast<size_t>(i)], 0.0f);
            EXPECT_TRUE(std::isnan(out[static_cast<size_t>(kOut + i)]));
            EXPECT_TRUE(std::isfinite(out[static_cast<size_t>(2 * kOut + i)]));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Formats, Packed, testing::ValuesIn(kTypes),
                         [](const auto& row) { return std::string(ggml_type_name(row.param)); });

TEST(PackedLayout, OthersAreLeftToGgml) {
    EXPECT_FALSE(layout_for(GGML_TYPE_F16, 256, 16));
    EXPECT_FALSE(layout_for(GGML_TYPE_Q4_0, 48, 16));
    EXPECT_FALSE(layout_for(GGML_TYPE_Q4_0, 64, 17));
    EXPECT_TRUE(layout_for(GGML_TYPE_Q4_0, 64, 32));
}

TEST(PackedGate, IsTheFunctionOnEveryInstructionSet) {
    std::vector<float> gate, up;
    for (int i = -4000; i <= 4000; ++i) gate.push_back(static_cast<float>(i) / 100);
    for (const float x : {0.0f, -0.0f, 1e-30f, 1e6f, -1e6f, 88.0f, -126.0f}) gate.push_back(x);
    for (size_t i = 0; i < gate.size(); ++i) up.push_back(i % 3 == 0 ? -1.5f : 2.0f);
    const auto n = static_cast<int64_t>(gate.size());
    for (const Gate kind : {Gate::silu, Gate::gelu}) {
        std::vector<float> oracle(gate.size()), out(gate.size());
        product_table()[0].gate(kind, gate.data(), up.data(), n, oracle.data());
        for (size_t i = 0; i < gate.size(); ++i) {
            const double x = double{gate[i]};
            const double u = 0.7978845608028654 * (x + 0.044715 * x * x * x);
            const double y = kind == Gate::silu ? x : 2 * u;
            const double want = x / (1 + std::exp(-y)) * double{up[i]};
            EXPECT_NEAR(double{oracle[i]}, want, 1e-5 * std::fabs(want) + 1e-30) << gate[i];
        }
        for (const ProductOps& ops : product_table()) {
            if (!ops.cpu_has_it()) continue;
            ops.gate(kind, gate.data(), up.data(), n, out.data());
            EXPECT_EQ(std::memcmp(out.data(), oracle.data(), out.size() * sizeof(float)), 0)
                << ops.name;
        }
        gate[5] = std::numeric_limits<float>::quiet_NaN();
        product_table()[0].gate(kind, gate.data(), up.data(), n, out.data());
        EXPECT_TRUE(std::isnan(out[5]));
        EXPECT_EQ(out[6], oracle[6]);
        gate[5] = -39.95f;
    }
}

TEST(PackedRows, ValuesAreWithinHalfAStep) {
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    std::vector<float> in(64);
    for (float& x : in) x = std::exp(8 * normal(random)) * (random() % 2 == 0 ? 1.0f : -1.0f);
    std::vector<std::byte> tile(tile_bytes(64));
    product_table()[0].quantise_row(in.data(), 64, tile.data(), 5);
    for (int i = 0; i < 64; ++i) {
        const RowBlock& block = row_block(tile.data(), i / 32, 5);
        EXPECT_NEAR(static_cast<float>(block.values[i % 32]) * block.step, in[i],
                    0.51f * block.step);
    }
}

}  // namespace
}  // namespace quire::packed
