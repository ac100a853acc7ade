// What the benches of copies share: pinned memory, fragments, wall-clock time of an engine's
// copies.
#pragma once

#include <memory>
#include <vector>

#include "device_data.h"
#include "kernels/cuda/copy/engine.h"
#include "kernels/cuda/copy/pinned_pool.h"

namespace quire::gpu_bench {

// Fragments of one size; each side in order, or shuffled.
struct Scatter {
    size_t bytes = 0;
    size_t fragment_bytes = 0;
    bool host = false;
    bool device = true;
};

std::vector<kernels::cuda::CopyFragment> scattered(std::byte* host, std::byte* device,
                                                   kernels::cuda::CopyDirection direction,
                                                   const Scatter& scatter);

// Pinned memory that has been filled with noise.
std::unique_ptr<kernels::cuda::PinnedPool> noisy_pool(size_t bytes);

// Ends the program when there is none.
std::unique_ptr<kernels::cuda::CopyEngine> calibrated_engine(
    const kernels::cuda::CopyEngineOptions& options);
// Asks again while the engine is busy.
kernels::cuda::CopyTicket submit(kernels::cuda::CopyEngine& engine,
                                 const kernels::cuda::CopyRequest& request);
void finish(kernels::cuda::CopyEngine& engine, kernels::cuda::CopyTicket ticket);

// Of each of two steps, taken in turn: the median of some runs, by the host's clock, from the first
// call to the end of all work on the device.
struct TwoTimes {
    double first_s = 0;
    double second_s = 0;
};
TwoTimes seconds_in_turn(void (*first)(void*), void* first_context, void (*second)(void*),
                         void* second_context, int repeats);

template <class First, class Second>
TwoTimes seconds_in_turn(First first, Second second, int repeats = 5) {
    return seconds_in_turn([](void* p) { (*static_cast<First*>(p))(); }, &first,
                           [](void* p) { (*static_cast<Second*>(p))(); }, &second, repeats);
}

}  // namespace quire::gpu_bench
