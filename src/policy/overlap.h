// Whether a request whose cached pages are still being loaded should enter the next step. Pure.
//
// A step needs layer i's pages when i of L layers are computed. Loads that land layer by layer at
// an even pace, with R left of them, keep up with C of computing if R <= C: the step then waits for
// the first layer only, R / L. While R > C nothing is gained by entering: the step would end when
// the load does, as if it had entered later. So the right moment is when R falls to C.
#pragma once

#include <algorithm>

namespace quire {

struct OverlapAsk {
    double load_left_ns = 0;   // R, predicted
    double compute_ns = 0;     // C, of the step with this request in it, predicted
    bool company = false;      // others are in the step, and would wait too
    bool copying = false;      // the load is the CPU's work
    bool spare_cores = false;  // cores that computing does not use
    bool at_once = false;      // no layer lands much before the last one
};

struct OverlapPlan {
    bool enter = false;
    double wait_max_ns = 0;  // of the step for its loads, all layers together; then it goes on
                             // without the request
};

inline constexpr double kOverlapWaitMax_ns = 250e6;  // how late a new request or a cancel may come
inline constexpr double kOverlapSlack_ns = 5e6;      // what scheduling may cost

inline OverlapPlan plan_overlap(const OverlapAsk& ask) {
    // Alone, entering early costs nobody anything, and C is easily underestimated.
    const double most = ask.company ? ask.compute_ns : 2 * ask.compute_ns;
    OverlapPlan plan;
    plan.enter = !ask.at_once && ask.load_left_ns <= most &&
                 ask.load_left_ns <= kOverlapWaitMax_ns / 2 && (!ask.copying || ask.spare_cores);
    const double wait =
        ask.company ? kOverlapSlack_ns + ask.compute_ns / 8 : kOverlapSlack_ns + 2 * most;
    plan.wait_max_ns = std::min(wait, kOverlapWaitMax_ns);
    return plan;
}

}  // namespace quire
