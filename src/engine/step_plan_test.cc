#include "engine/step_plan.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

using Take = std::vector<uint32_t>;

TEST(StepPlan, DecodesComeBeforePrompts) {
    const StepCandidate some[] = {{100, false}, {1, true}, {50, false}, {1, true}};
    EXPECT_EQ(plan_step(some, {.tokens = 110}), (Take{100, 1, 8, 1}));
    EXPECT_EQ(plan_step(some, {.tokens = 2}), (Take{0, 1, 0, 1}));
}

TEST(StepPlan, BoundsSequencesAndRows) {
    const StepCandidate some[] = {{10, false}, {10, false}, {10, false}};
    EXPECT_EQ(plan_step(some, {.tokens = 100, .sequences = 2}), (Take{10, 10, 0}));
    EXPECT_EQ(plan_step(some, {.tokens = 100, .logit_rows = 1}), (Take{10, 0, 0}));
}

TEST(StepPlan, ARequestThatWantsAllLogitsTakesTheirRows) {
    const StepCandidate some[] = {{100, false, true}, {10, false}};
    EXPECT_EQ(plan_step(some, {.tokens = 512, .logit_rows = 64}), (Take{64, 0}));
}

TEST(StepPlan, NothingToDo) {
    EXPECT_TRUE(plan_step({}, {}).empty());
}

}  // namespace
}  // namespace quire
