#include "engine/tiers.h"

#include "policy/plan.h"
#include "tier/disk/disk.h"
#include "tier/host/host_store.h"
#include "tier/packed/packed_store.h"

namespace quire {

Result<std::unique_ptr<Tiers>> Tiers::open(const EngineOptions& options, const KvLayout& layout,
                                           std::shared_ptr<const SlabPacking> cold) {
    auto tiers = std::make_unique<Tiers>();
    if (options.host_memory_bytes > 0) {
        HostOptions host;
        host.layout = layout;
        host.capacity_bytes = options.host_memory_bytes;
        host.evict = options.evict;
        auto store = open_host_store(host);
        if (!store.ok()) {
            Error error = store.error();
            error.message = "--host-memory: " + error.message;
            return error;
        }
        tiers->lower_.push_back({store->get(), options.admit_host, options.write_through_host});
        tiers->stores_.push_back(std::move(store).value());
    }
    if (!options.disk_dir.empty()) {
        if (!options.io) {
            auto io = make_io_engine({});
            if (!io.ok()) return io.error();
            tiers->io_ = std::move(io).value();
        }
        DiskOptions disk;
        disk.dir = options.disk_dir;
        disk.capacity_bytes = options.disk_bytes;
        disk.io = options.io ? options.io : tiers->io_.get();
        disk.clock = options.clock;
        auto store = open_disk_store(disk);
        if (!store.ok()) {
            Error error = store.error();
            error.message = "--disk: " + error.message;
            return error;
        }
        TierStore* used = store->get();
        tiers->stores_.push_back(std::move(store).value());
        if (cold) {
            tiers->packed_ =
                make_packed_store(*used, {.packing = std::move(cold),
                                          .pack_share = options.cold_cpu_percent / 100.0,
                                          .clock = options.clock});
            used = tiers->packed_.get();
        }
        tiers->lower_.push_back({used, options.admit_disk, options.write_through_disk});
    }
    return tiers;
}

Status Tiers::flush(int64_t timeout_ns) {
    for (const LowerTier& tier : lower_) QUIRE_TRY(tier.store->flush(timeout_ns));
    return {};
}

}  // namespace quire
