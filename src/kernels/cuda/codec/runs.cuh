// Runs of new tokens: those that follow each other in `slots` and lie in one group of 16 of a page.
#pragma once

#include <cstdint>

#include "kernels/cuda/codec/quad_row.cuh"
#include "kernels/cuda/device_check.cuh"

namespace quire::kernels::cuda {

inline constexpr uint32_t kGroupTokens = 16;
static_assert(kGroupTokens == 1 << 4);

struct Run {
    int64_t group;     // of all pages
    uint32_t written;  // bit t: token t of the group
};

// The runs that begin in a window of at most 16 tokens. A warp together: lane i looks at the token
// before the window and at the 31 that follow, so that every run is seen to its end.
struct RunFinder {
    int64_t group;
    uint32_t place;   // in the group
    int32_t token;    // of the new ones
    uint32_t breaks;  // bit i: lane i's token has another group than the one before it
    uint32_t starts;  // bit i: a run of the window begins with lane i's token

    __device__ RunFinder(const int64_t* slots, int32_t n_tokens, int64_t groups, int32_t first,
                         int32_t window_tokens) {
        const auto lane = static_cast<int32_t>(lane_of_warp());
        token = first - 1 + lane;
        const int64_t slot = token >= 0 && token < n_tokens ? slots[token] : -1;
        QUIRE_DEVICE_CHECK(slot < 0 || slot >> 4 < groups, "slots: one is behind the last block");
        group = slot < 0 || slot >> 4 >= groups ? -1 : slot >> 4;
        place = static_cast<uint32_t>(slot) % kGroupTokens;
        const int64_t before = __shfl_up_sync(kWholeWarp, group, 1);
        breaks = __ballot_sync(kWholeWarp, lane > 0 && group != before);
        starts = __ballot_sync(kWholeWarp,
                               lane >= 1 && lane <= window_tokens && group >= 0 && group != before);
    }

    // The run that begins with the token of lane `start`. tokens[t]: which of the new tokens is
    // token t of the group; for this warp alone.
    __device__ Run run_at(int start, int32_t* tokens) const {
        const uint32_t later = breaks & (0xfffffffeu << start);
        const int end = later == 0 ? 32 : __ffs(static_cast<int>(later)) - 1;
        const auto lane = static_cast<int>(lane_of_warp());
        const bool mine = lane >= start && lane < end;
        __syncwarp();
        if (mine) tokens[place] = token;
        __syncwarp();
        return {__shfl_sync(kWholeWarp, group, start),
                __reduce_or_sync(kWholeWarp, mine ? 1u << place : 0u)};
    }
};

}  // namespace quire::kernels::cuda
