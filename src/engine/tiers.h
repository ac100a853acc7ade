// The lower tiers of one engine, opened from its options: a host pool for each cache, because its
// slots are of the sizes of one layout, and one folder on disk for all.
#pragma once

#include <memory>
#include <vector>

#include "base/io.h"
#include "base/result.h"
#include "cache/cache_types.h"
#include "engine/engine_options.h"
#include "tier/packed/packed_store.h"
#include "tier/packed/slab_packing.h"
#include "tier/tier.h"

namespace quire {

// The pages of one cache: their shape, and how slabs of it are packed in host memory and on disk
// (null: they are not).
struct TierPages {
    KvLayout layout;
    std::shared_ptr<const SlabPacking> host;
    std::shared_ptr<const SlabPacking> cold;
};

class Tiers {
 public:
    // Errors are the stores' own, naming the option. Caches share the host's memory equally, and
    // the part of a core that packs.
    static Result<std::unique_ptr<Tiers>> open(const EngineOptions& options,
                                               const std::vector<TierPages>& pages);

    // What the cache of pages[i] has below G1.
    const std::vector<LowerTier>& lower(size_t i) const { return lower_[i]; }
    // Of each tier, all caches together.
    std::vector<TierStats> stats() const;
    std::vector<Tier> names() const;
    void hurry(bool on);  // as TierStore::hurry
    Status flush(int64_t timeout_ns);

 private:
    Status open_host(const EngineOptions& options, const std::vector<TierPages>& pages);
    Status open_disk(const EngineOptions& options, const std::vector<TierPages>& pages);
    // `store`, with packing around it where there is something to pack or unpack.
    TierStore* packed(TierStore& store, PackedOptions options);

    std::unique_ptr<IoEngine> io_;  // outlives the stores
    std::vector<std::unique_ptr<TierStore>> stores_;
    std::shared_ptr<ThreadPool> unpackers_;           // of all packed stores; null: nobody unpacks
    std::vector<std::unique_ptr<TierStore>> packed_;  // around those
    std::vector<std::vector<LowerTier>> lower_;       // [cache]
};

}  // namespace quire
