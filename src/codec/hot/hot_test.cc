// The hot family's own promises; conformance_test.cc has what every codec keeps.
#include <gtest/gtest.h>

#include "codec/hot/layout.h"
#include "codec/hot/scale.h"
#include "codec/testing/pages.h"

namespace quire::codec::hot {
namespace {

using namespace codec::testing;

constexpr uint64_t kSeed = 7919;

CodecSpec spec_of(int k_bits, int v_bits) {
    return *find_codec("k" + std::to_string(k_bits) + "v" + std::to_string(v_bits));
}

double density(double x) {
    return std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}
double above(double x) {
    return std::erfc(x / M_SQRT2) / 2;
}

TEST(HotConstants, LevelsAreTheMeansBetweenThresholdsInTheMiddle) {
    for (int bits = 2; bits <= 5; ++bits) {
        const float* levels = lloyd_levels(bits);
        const float* thresholds = lloyd_thresholds(bits);
        const int n = magnitudes(bits);
        for (int i = 0; i < n; ++i) {
            const double low = i == 0 ? 0.0 : (double{levels[i - 1]} + levels[i]) / 2;
            const double high = i + 1 == n ? 40.0 : (double{levels[i]} + levels[i + 1]) / 2;
            EXPECT_NEAR(levels[i], (density(low) - density(high)) / (above(low) - above(high)),
                        3e-7)
                << bits << " " << i;
            if (i + 1 < n) {
                EXPECT_NEAR(thresholds[i], high, 1.3e-7) << bits << " " << i;
            }
        }
    }
}

TEST(HotConstants, ScalesAreSixteenthsOfOctaves) {
    for (int bits = kMinBits; bits <= kMaxBits; ++bits)
        for (uint32_t u = 1; u < 256; ++u) {
            const double expected = std::exp2(u / 16.0 - octaves(bits));
            EXPECT_NEAR(scale_of(bits, u) / expected, 1, 6e-8);
            EXPECT_NEAR(inverse_scale_of(bits, u) * expected, 1, 6e-8);
            // The smallest scale at least as large as another is that one.
            EXPECT_EQ(scale_at_least(bits, scale_of(bits, u)), static_cast<int>(u));
            EXPECT_EQ(scale_at_least(bits, std::nextafter(scale_of(bits, u), 1e9f)),
                      static_cast<int>(u) + 1);
        }
    EXPECT_EQ(decode_scale(4, 0), 0.0f);
}

TEST(HotLayout, EveryCodeHasItsOwnBitsInsideItsPart) {
    for (int bits = kMinBits; bits <= kMaxBits; ++bits)
        for (const uint32_t head_dim : {16u, 64u, 80u, 112u}) {
            const Shape s{bits, bits, head_dim, 32};
            for (const auto place_of : {k_place, v_place}) {
                std::vector<int> taken(side_bytes(s, bits) * 8);
                for (uint32_t t = 0; t < s.tokens; ++t)
                    for (uint32_t d = 0; d < head_dim; ++d)
                        for (int p = 0; p < planes_of(bits).count; ++p) {
                            const int width = planes_of(bits).width[p];
                            const Place place = place_of(s, t, d);
                            const size_t byte =
                                plane_offset(s, bits, p) + byte_in_plane(width, place);
                            for (int b = 0; b < width; ++b)
                                ++taken.at(byte * 8 + bit_in_byte(width, place) + b);
                        }
                for (const int count : taken) ASSERT_EQ(count, 1) << bits << " " << head_dim;
            }
        }
}

TEST(HotLayout, PartsFollowEachOtherOnAlignedOffsets) {
    for (int k = kMinBits; k <= kMaxBits; ++k)
        for (int v = kMinBits; v <= kMaxBits; ++v)
            for (uint32_t head_dim = 16; head_dim <= 256; head_dim += 16) {
                const Shape s{k, v, head_dim, 16};
                EXPECT_EQ(v_offset(s) % kPageAlign, 0u);
                EXPECT_EQ(k_scales_offset(s) % kPageAlign, 0u);
                EXPECT_EQ(page_bytes(s) % kPageAlign, 0u);
                EXPECT_EQ(page_bytes(s), head_dim * 2 * (k + v) + 32u);
                for (int p = 0; p < planes_of(k).count; ++p)
                    EXPECT_EQ(plane_offset(s, k, p) % kPageAlign, 0u);
            }
}

// Mean squared error of normal rows over their energy, measured with the oracle and rounded up by
// 3 %; ideal is 4^-bits. An 8-bit scale and the search are in it.
TEST(HotQuality, ErrorOfNormalRowsIsWhatTheTableSays) {
    struct Bound {
        uint32_t head_dim;
        double at[9];  // by bits
    };
    for (const Bound& bound :
         {Bound{64, {0, 0, .115, .0303, .00718, .00178, 5.95e-4, 1.51e-4, 3.82e-5}},
          Bound{128, {0, 0, .118, .0328, .00808, .00201, 6.95e-4, 1.77e-4, 4.47e-5}},
          Bound{256, {0, 0, .120, .0344, .00880, .00218, 7.92e-4, 2.02e-4, 5.12e-5}}})
        for (int bits = kMinBits; bits <= kMaxBits; ++bits) {
            const CodecSpec spec = spec_of(bits, bits);
            const Rows rows({.head_dim = bound.head_dim, .block_tokens = 256}, Kind::normal, kSeed);
            const PageCodecOps& ops = best_ops(row_of(spec));
            Page page(spec, rows.g, 0);
            encode(ops, spec, rows, page);
            const Decoded out = decode(ops, spec, rows, page);
            EXPECT_LT(relative_error(rows, rows.k, out.k), bound.at[bits])
                << bits << " bits, head_dim " << bound.head_dim;
        }
}

// Doubling a row adds 16 to its scale and leaves its codes alone.
TEST(HotProperty, CodesDoNotDependOnPowersOfTwo) {
    for (int bits = kMinBits; bits <= kMaxBits; ++bits) {
        const CodecSpec spec = spec_of(bits, bits);
        const Geometry g{.head_dim = 64};
        const Rows one(g, Kind::heavy_tails, kSeed);
        Rows two = one;
        for (float& x : two.k) x *= 2;
        for (float& x : two.v) x *= 2;
        const PageCodecOps& ops = best_ops(row_of(spec));
        Page a(spec, g, 0), b(spec, g, 0);
        encode(ops, spec, one, a);
        encode(ops, spec, two, b);
        const Shape s{bits, bits, 64, 16};
        EXPECT_EQ(std::memcmp(a.data(), b.data(), k_scales_offset(s)), 0) << bits;
        for (size_t i = k_scales_offset(s); i < page_bytes(s); ++i)
            EXPECT_EQ(static_cast<int>(a.data()[i]) + 16, static_cast<int>(b.data()[i])) << bits;
    }
}

// A mean that is taken out and put back costs nothing but rounding.
TEST(HotProperty, AMeanIsTakenOutExactly) {
    const CodecSpec spec = spec_of(4, 4);
    const Geometry g{.head_dim = 128};
    const Rows plain(g, Kind::normal, kSeed);
    Rows moved = plain;
    for (size_t i = 0; i < moved.k.size(); ++i) {
        moved.k[i] += 50 * moved.k_mean[i % 128];
        moved.v[i] += 50 * moved.v_mean[i % 128];
    }
    for (float& x : moved.k_mean) x *= 50;
    for (float& x : moved.v_mean) x *= 50;
    const PageCodecOps& ops = best_ops(row_of(spec));
    Page with(spec, g, 0), without(spec, g, 0);
    encode(ops, spec, moved, with, true);
    encode(ops, spec, moved, without, false);
    const auto error = [&](const Page& page, bool means) {
        const Decoded out = decode(ops, spec, moved, page, true, means);
        double sum = 0;
        for (size_t i = 0; i < out.k.size(); ++i) sum += std::pow(out.k[i] - moved.k[i], 2);
        return sum / static_cast<double>(out.k.size());
    };
    EXPECT_LT(error(with, true), 0.012);
    EXPECT_GT(error(without, false), 1.0);
}

TEST(HotProperty, RowsThatAreNotFiniteAreZero) {
    const CodecSpec spec = spec_of(6, 3);
    const Geometry g{.head_dim = 64};
    const Rows rows(g, Kind::not_finite, kSeed);
    const PageCodecOps& ops = best_ops(row_of(spec));
    Page page(spec, g, 0xff);
    encode(ops, spec, rows, page);
    const Decoded out = decode(ops, spec, rows, page);
    for (size_t i = 0; i < out.k.size(); ++i) {
        const size_t t = i / 64;
        if (t % 3 == 1 || t % 4 == 2) {
            EXPECT_EQ(out.k[i] + out.v[i], 0.0f) << t;
        }
    }
}

// The mean of q . (decoded - original) over many rows and queries is noise about zero: no bias that
// would tilt scores. Least-squares scales shrink what they code, so that the score of a row with
// itself comes out lower by the relative error, and by nothing more.
TEST(HotStatistics, ScoresAreUnbiasedButForTheShrinkingThatLeastSquaresBrings) {
    for (int bits = kMinBits; bits <= kMaxBits; ++bits) {
        const CodecSpec spec = spec_of(bits, bits);
        const Geometry g{.head_dim = 128, .block_tokens = 256};
        const PageCodecOps& ops = best_ops(row_of(spec));
        double cross = 0, cross_squares = 0, self = 0, energy = 0, error = 0;
        size_t n = 0;
        for (uint64_t seed = kSeed; seed < kSeed + 4; ++seed) {
            const Rows rows(g, Kind::normal, seed);
            Page page(spec, g, 0);
            encode(ops, spec, rows, page);
            const Decoded out = decode(ops, spec, rows, page);
            for (uint32_t t = 0; t < g.block_tokens; ++t) {
                double dot = 0;
                for (uint32_t d = 0; d < g.head_dim; ++d) {
                    const double x = rows.k[t * 128 + d], y = out.k[t * 128 + d];
                    dot += rows.v[t * 128 + d] * (y - x);
                    self += x * y;
                    energy += x * x;
                    error += (x - y) * (x - y);
                }
                cross += dot;
                cross_squares += dot * dot;
                ++n;
            }
        }
        const double deviation = std::sqrt(cross_squares / static_cast<double>(n));
        EXPECT_LT(std::fabs(cross / static_cast<double>(n)),
                  4 * deviation / std::sqrt(static_cast<double>(n)))
            << bits << " seed " << kSeed;
        const double shrinking = 1 - self / energy, relative = error / energy;
        if (bits <= 6) {
            EXPECT_NEAR(shrinking, relative, 0.06 * relative) << bits;
        } else {  // too few scales are tried to be the best ones
            EXPECT_LT(std::fabs(shrinking), 2 * relative) << bits;
        }
    }
}

}  // namespace
}  // namespace quire::codec::hot
