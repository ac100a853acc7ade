// The lower tiers of one engine, opened from its options.
#pragma once

#include <memory>
#include <vector>

#include "base/io.h"
#include "base/result.h"
#include "cache/cache_types.h"
#include "engine/engine_options.h"
#include "tier/packed/slab_packing.h"
#include "tier/tier.h"

namespace quire {

class Tiers {
 public:
    // Errors are the stores' own, naming the option. `cold`: how the disk's slabs are packed; null:
    // they are not.
    static Result<std::unique_ptr<Tiers>> open(const EngineOptions& options, const KvLayout& layout,
                                               std::shared_ptr<const SlabPacking> cold);

    std::vector<LowerTier> lower() const { return lower_; }
    Status flush(int64_t timeout_ns);

 private:
    std::unique_ptr<IoEngine> io_;  // outlives the stores
    std::vector<std::unique_ptr<TierStore>> stores_;
    std::unique_ptr<TierStore> packed_;  // on one of them
    std::vector<LowerTier> lower_;
};

}  // namespace quire
