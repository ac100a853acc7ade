// A batch of gets on its way, of stores whose blocks are HostEntries.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "tier/host/copy_slab.h"
#include "tier/host/host_entries.h"
#include "tier/landing.h"

namespace quire {

struct GetFlight {
    std::vector<TierGet> items;
    TierDone done;
    std::vector<SlabPiece> pieces{{0, std::numeric_limits<uint32_t>::max(), 0, 0}};
    std::optional<LandingCount> landing;
    std::vector<HostEntry*> entries;  // per item, used until the end; nullptr: nothing to copy
    std::vector<Status> results;      // under results_mutex until the last part
    std::mutex results_mutex;
    std::atomic<size_t> open{0};  // parts that have not ended
    int64_t start_ns = system_clock().monotonic_ns();

    GetFlight(std::vector<TierGet> gets, TierDone when_done);
    // The first thing that went wrong counts.
    void fail(size_t item, const Status& why);
};

// The blocks that are there, as used until let_go(). `layers`: what each slab must have, when the
// caller said so; miss: what a block that is not there fails with. REQUIRES, as let_go(): what
// guards entries and stats.
void hold_entries(GetFlight& flight, HostEntries& entries, const KvLayout& layout, uint32_t layers,
                  std::string_view miss, TierStats& stats);
// Counts what became of the batch and gives its entries back; corrupt ones are gone.
void let_go_of_entries(GetFlight& flight, HostEntries& entries, TierStats& stats);

}  // namespace quire
