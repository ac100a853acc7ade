#include "engine/tiers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "policy/plan.h"
#include "tier/disk/disk.h"
#include "tier/host/host_store.h"
#include "tier/packed/behind_lossy.h"

namespace quire {
namespace {

// Figures of two host pools.
void add_pool(TierStats& to, const TierStats& from) {
    to.blocks += from.blocks;
    to.used_bytes += from.used_bytes;
    to.capacity_bytes += from.capacity_bytes;
    to.gets += from.gets;
    to.get_hits += from.get_hits;
    to.get_bytes += from.get_bytes;
    to.get_ns += from.get_ns;
    to.puts += from.puts;
    to.puts_rejected += from.puts_rejected;
    to.put_bytes += from.put_bytes;
    to.put_ns += from.put_ns;
    to.evicted_blocks += from.evicted_blocks;
    to.corrupt_blocks += from.corrupt_blocks;
    to.pending += from.pending;
}

// What two packings of one store did.
void add_packing(TierStats& to, const TierStats& from) {
    to.packed_blocks += from.packed_blocks;
    to.unpacked_blocks += from.unpacked_blocks;
    to.pack_failures += from.pack_failures;
    to.packed_from_bytes += from.packed_from_bytes;
    to.packed_to_bytes += from.packed_to_bytes;
    to.pack_ns += from.pack_ns;
    to.unpack_ns += from.unpack_ns;
}

// Packing shares what one core may give to it: of how much each of so many packers takes.
double pack_share(const EngineOptions& options, const std::vector<TierPages>& pages) {
    size_t packers = 0;
    for (const TierPages& of : pages) packers += (of.host ? 1u : 0u) + (of.cold ? 1u : 0u);
    return options.cold_cpu_percent / 100.0 / static_cast<double>(std::max<size_t>(1, packers));
}

}  // namespace

Result<std::unique_ptr<Tiers>> Tiers::open(const EngineOptions& options,
                                           const std::vector<TierPages>& pages) {
    auto tiers = std::make_unique<Tiers>();
    tiers->lower_.resize(pages.size());
    const bool packs = std::ranges::any_of(
        pages, [](const TierPages& p) { return p.host != nullptr || p.cold != nullptr; });
    if (packs) tiers->unpackers_ = make_unpackers(options.unpack_threads);
    if (options.host_memory_bytes > 0) QUIRE_TRY(tiers->open_host(options, pages));
    if (!options.disk_dir.empty()) QUIRE_TRY(tiers->open_disk(options, pages));
    return tiers;
}

Status Tiers::open_host(const EngineOptions& options, const std::vector<TierPages>& pages) {
    for (size_t i = 0; i < pages.size(); ++i) {
        HostOptions host;
        host.layout = pages[i].layout;
        host.capacity_bytes = options.host_memory_bytes / pages.size();
        host.evict = options.evict;
        host.any_size = pages[i].host != nullptr;
        auto store = open_host_store(host);
        if (!store.ok()) {
            Error error = store.error();
            const std::string shared = pages.size() > 1
                                           ? ", of which each codec gets one of " +
                                                 std::to_string(pages.size()) + " equal shares"
                                           : "";
            error.message = "--host-memory" + shared + ": " + error.message;
            return error;
        }
        TierStore* used = packed(**store, {.packing = pages[i].host,
                                           .pack_share = pack_share(options, pages),
                                           .clock = options.clock});
        lower_[i].push_back({used, options.admit_host, options.write_through_host});
        stores_.push_back(std::move(store).value());
    }
    return {};
}

Status Tiers::open_disk(const EngineOptions& options, const std::vector<TierPages>& pages) {
    if (!options.io) {
        auto io = make_io_engine({});
        if (!io.ok()) return io.error();
        io_ = std::move(io).value();
    }
    DiskOptions disk;
    disk.dir = options.disk_dir;
    disk.capacity_bytes = options.disk_bytes;
    disk.io = options.io ? options.io : io_.get();
    disk.clock = options.clock;
    auto store = open_disk_store(disk);
    if (!store.ok()) {
        Error error = store.error();
        error.message = "--disk: " + error.message;
        return error;
    }
    for (size_t i = 0; i < pages.size(); ++i) {
        // Where all is written through, nothing comes from above but what was computed.
        const auto& above = pages[i].host;
        const bool comes_down = above && !options.write_through_disk;
        TierStore* used = packed(**store, {.packing = pack_behind(pages[i].cold, above),
                                           .above = comes_down ? above : nullptr,
                                           .pack_share = pack_share(options, pages),
                                           .clock = options.clock});
        lower_[i].push_back({used, options.admit_disk, options.write_through_disk});
    }
    stores_.push_back(std::move(store).value());
    return {};
}

TierStore* Tiers::packed(TierStore& store, PackedOptions options) {
    if (!options.packing && !options.above) return &store;
    options.unpackers = unpackers_;
    packed_.push_back(make_packed_store(store, options));
    return packed_.back().get();
}

std::vector<Tier> Tiers::names() const {
    std::vector<Tier> names;
    for (const LowerTier& lower : lower_.front()) names.push_back(lower.store->info().tier);
    return names;
}

std::vector<TierStats> Tiers::stats() const {
    std::vector<TierStats> all;
    for (size_t tier = 0; tier < lower_.front().size(); ++tier) {
        const TierStore* first = lower_.front()[tier].store;
        all.push_back(first->stats());
        for (size_t i = 1; i < lower_.size(); ++i) {
            const TierStore* store = lower_[i][tier].store;
            if (store == first) continue;
            const TierStats more = store->stats();
            if (store->info().tier == Tier::g2)
                add_pool(all.back(), more);
            else
                all.back().pending = std::max(all.back().pending, more.pending);  // the disk's own
            add_packing(all.back(), more);
        }
    }
    return all;
}

void Tiers::hurry(bool on) {
    for (const auto& lower : lower_)
        for (const LowerTier& tier : lower) tier.store->hurry(on);
}

Status Tiers::flush(int64_t timeout_ns) {
    for (const auto& lower : lower_)
        for (const LowerTier& tier : lower) QUIRE_TRY(tier.store->flush(timeout_ns));
    return {};
}

}  // namespace quire
