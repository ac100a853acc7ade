#include "base/rng.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Rng, SplitmixMatchesItsPublishedSequence) {
    uint64_t state = 1234567;
    EXPECT_EQ(Rng::splitmix(state), 6457827717110365317u);
    EXPECT_EQ(Rng::splitmix(state), 3203168211198807973u);
    EXPECT_EQ(Rng::splitmix(state), 9817491932198370423u);
}

// From an independent implementation of xoshiro256** seeded the same way.
TEST(Rng, SequenceIsFixed) {
    Rng rng(42);
    const uint64_t expected[] = {1546998764402558742u, 6990951692964543102u, 12544586762248559009u,
                                 17057574109182124193u};
    for (const uint64_t value : expected) EXPECT_EQ(rng.next(), value);
}

TEST(Rng, SeedsDiffer) {
    EXPECT_NE(Rng(1).next(), Rng(2).next());
}

TEST(Rng, BelowIsUniform) {
    Rng rng(5);
    std::vector<int> counts(7);
    for (int i = 0; i < 70'000; ++i) ++counts[rng.below(7)];
    for (const int count : counts) EXPECT_NEAR(count, 10'000, 500);
    EXPECT_EQ(rng.below(1), 0u);
}

TEST(Rng, UniformStaysInsideAndCentres) {
    Rng rng(6);
    double sum = 0;
    for (int i = 0; i < 100'000; ++i) {
        const double u = rng.uniform();
        ASSERT_GE(u, 0.0);
        ASSERT_LT(u, 1.0);
        sum += u;
    }
    EXPECT_NEAR(sum / 100'000, 0.5, 0.01);
}

TEST(Rng, ShufflesWithTheStandardLibrary) {
    std::vector<int> values(100);
    std::iota(values.begin(), values.end(), 0);
    Rng rng(7);
    std::shuffle(values.begin(), values.end(), rng);
    EXPECT_FALSE(std::is_sorted(values.begin(), values.end()));
}

}  // namespace
}  // namespace quire
