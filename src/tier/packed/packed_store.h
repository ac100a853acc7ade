// PackedStore: a tier whose slabs are packed on the way in and unpacked on the way out.
//
// A TierStore around another one. Puts are packed by one background thread of low priority that
// takes a bounded share of a core; gets are read in small batches, so that unpacking (by threads of
// their own) goes on beside reading. Slabs that are not packed are served as they are; those that
// were packed in another way are given up. No landing: a get lands at one moment.
//
// What a packed tier above gives up comes down as it lay there. If it is packed as it would be
// here, it is stored as it is; otherwise it is unpacked, in the background too, and packed anew.
#pragma once

#include <memory>

#include "base/clock.h"
#include "base/executor.h"
#include "tier/packed/slab_packing.h"
#include "tier/tier.h"

namespace quire {

struct PackedOptions {
    std::shared_ptr<const SlabPacking> packing;  // null: none; gets are those of the store below
    std::shared_ptr<const SlabPacking> above;    // of slabs that come down packed; null: none do
    // Where slabs are unpacked; may serve other stores. Its threads are all that unpacking takes,
    // and they do not give way to others, for requests wait for them. Its queue has no bound of its
    // own: tasks are as many as slabs under way, which max_pending_batches bounds. null: two
    // threads of this store's own.
    std::shared_ptr<ThreadPool> unpackers;
    double pack_share =
        0.5;  // of one core, that packing takes at most; flush() does not wait for it
    uint32_t max_pending_batches = 256;              // gets, and puts, accepted and not finished
    uint64_t packed_bytes_max = uint64_t{64} << 20;  // packed, not yet stored
    uint64_t get_batch_bytes = uint64_t{1} << 20;    // unpacked bytes read by one request
    const Clock* clock = &system_clock();
};

inline constexpr uint32_t kUnpackThreads = 2;

// A pool for `unpackers`. Throws std::system_error as make_packed_store.
std::shared_ptr<ThreadPool> make_unpackers(uint32_t threads);

// `inner` outlives it, and may have other users. REQUIRES: one of both packings; 0 < pack_share <=
// 1. Throws std::system_error when the machine gives no more threads.
std::unique_ptr<TierStore> make_packed_store(TierStore& inner, const PackedOptions& options);

}  // namespace quire
