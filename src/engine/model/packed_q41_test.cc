#include "engine/model/packed_q41.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <ggml-cpu.h>
#include <ggml.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

constexpr int64_t kIn = 576;
constexpr int64_t kOut = 48;

struct Case {
    std::vector<float> dense;  // [kOut][kIn], as ggml reads the weights back
    std::vector<std::byte> packed;
    std::vector<float> inputs;  // [rows][kIn]
    std::vector<std::byte> rows;
};

Case make_case(int32_t n_rows) {
    ggml_cpu_init();
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    Case c;
    std::vector<float> weights(kIn * kOut);
    for (float& w : weights) w = normal(random);
    const size_t row_bytes = ggml_row_size(GGML_TYPE_Q4_1, kIn);
    std::vector<std::byte> quantised(row_bytes * kOut);
    ggml_quantize_chunk(GGML_TYPE_Q4_1, weights.data(), quantised.data(), 0, kOut, kIn, nullptr);
    c.dense.resize(weights.size());
    ggml_get_type_traits(GGML_TYPE_Q4_1)->to_float(quantised.data(), c.dense.data(), kIn * kOut);
    c.packed.resize(packed_q41_bytes(kIn, kOut));
    pack_q41(quantised.data(), row_bytes, kIn, kOut, c.packed.data());
    c.inputs.resize(static_cast<size_t>(n_rows * kIn));
    for (float& x : c.inputs) x = normal(random);
    c.rows.resize(static_cast<size_t>(n_rows) * packed_row_bytes(kIn));
    for (int32_t r = 0; r < n_rows; ++r)
        quantise_packed_row(c.inputs.data() + r * kIn, kIn,
                            c.rows.data() + static_cast<size_t>(r) * packed_row_bytes(kIn));
    return c;
}

std::vector<float> multiply(const Case& c, int32_t first, int32_t n_rows) {
    std::vector<float> out(static_cast<size_t>(n_rows * kOut));
    for (int64_t g = 0; g < kOut / kPackedOutputs; ++g)
        multiply_packed_q41(c.packed.data(), g, kIn,
                            c.rows.data() + static_cast<size_t>(first) * packed_row_bytes(kIn),
                            n_rows, out.data() + g * kPackedOutputs, kOut);
    return out;
}

TEST(PackedQ41, IsCloseToFloatArithmetic) {
    if (!packed_q41_supported()) GTEST_SKIP() << "no AVX-512 VNNI on this CPU";
    const int32_t n = 5;
    const Case c = make_case(n);
    const std::vector<float> out = multiply(c, 0, n);
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
            // Rounding activations to 8 bits: about 1 % of the product's spread.
            EXPECT_NEAR(out[static_cast<size_t>(r * kOut + i)], want, 0.05 * std::sqrt(size));
        }
    }
}

TEST(PackedQ41, ARowsBitsDoNotDependOnItsNeighbours) {
    if (!packed_q41_supported()) GTEST_SKIP() << "no AVX-512 VNNI on this CPU";
    constexpr int32_t kRows = 31;
    const Case c = make_case(kRows);
    const std::vector<float> all = multiply(c, 0, kRows);
    for (int32_t r = 0; r < kRows; ++r) {
        for (int32_t n : {1, 2, 3, 4, 5, 7, 8, 9}) {
            if (r + n > kRows) continue;
            const std::vector<float> some = multiply(c, r, n);
            ASSERT_EQ(std::memcmp(some.data(), all.data() + r * kOut, some.size() * sizeof(float)),
                      0)
                << "row " << r << " of " << n;
        }
    }
}

TEST(PackedQ41, AZeroRowGivesZeros) {
    if (!packed_q41_supported()) GTEST_SKIP() << "no AVX-512 VNNI on this CPU";
    Case c = make_case(1);
    std::fill(c.inputs.begin(), c.inputs.end(), 0.0f);
    quantise_packed_row(c.inputs.data(), kIn, c.rows.data());
    for (float y : multiply(c, 0, 1)) EXPECT_EQ(y, 0.0f);
}

}  // namespace
}  // namespace quire
