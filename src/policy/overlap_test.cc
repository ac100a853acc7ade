#include "policy/overlap.h"

#include <limits>

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Overlap, EntersWhenComputingHidesTheLoad) {
    for (const double compute : {1e6, 20e6, 100e6}) {
        EXPECT_TRUE(plan_overlap({0, compute, true}).enter);
        EXPECT_TRUE(plan_overlap({compute, compute, true}).enter);
        EXPECT_FALSE(plan_overlap({1.1 * compute, compute, true}).enter) << "others would wait";
        EXPECT_TRUE(plan_overlap({1.1 * compute, compute, false}).enter) << "nobody would";
        EXPECT_FALSE(plan_overlap({2.1 * compute, compute, false}).enter) << "nothing is gained";
    }
}

TEST(Overlap, CopiesNeedCoresOfTheirOwn) {
    EXPECT_FALSE(plan_overlap({1e6, 20e6, false, true, false}).enter);
    EXPECT_TRUE(plan_overlap({1e6, 20e6, false, true, true}).enter);
    EXPECT_TRUE(plan_overlap({1e6, 20e6, false, false, false}).enter);
    EXPECT_FALSE(plan_overlap({.load_left_ns = 1e6, .compute_ns = 20e6, .at_once = true}).enter);
}

TEST(Overlap, NeverWaitsLongForASlowDisk) {
    EXPECT_FALSE(plan_overlap({1e9, 10e9, false}).enter);
    EXPECT_FALSE(plan_overlap({1e9, 10e9, true}).enter);
    EXPECT_FALSE(plan_overlap({std::numeric_limits<double>::infinity(), 1e12, false}).enter);
    for (const bool company : {false, true}) {
        const OverlapPlan plan = plan_overlap({1e6, 10e9, company});
        EXPECT_TRUE(plan.enter);
        EXPECT_LE(plan.wait_max_ns, kOverlapWaitMax_ns);
    }
}

TEST(Overlap, OthersWaitForAPartOfAStepAtMost) {
    for (const double compute : {1e6, 20e6, 100e6, 1e9}) {
        const OverlapPlan plan = plan_overlap({0, compute, true});
        EXPECT_LE(plan.wait_max_ns, kOverlapSlack_ns + compute / 8);
    }
}

}  // namespace
}  // namespace quire
