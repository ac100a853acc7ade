// StoreState: what the parts of one disk store share. Members are safe from any thread, each in the
// way its own header says.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "format/record.h"
#include "tier/disk/catalog.h"
#include "tier/disk/dir.h"
#include "tier/disk/disk.h"
#include "tier/disk/health.h"
#include "tier/disk/segment_files.h"

namespace quire {

struct StoreCounters {
    std::atomic<uint64_t> gets{0}, get_hits{0}, get_bytes{0}, get_ns{0};
    std::atomic<uint64_t> puts{0}, puts_rejected{0}, put_bytes{0}, put_ns{0};
    std::atomic<uint64_t> evicted_blocks{0}, corrupt_blocks{0}, io_errors{0};
    std::atomic<uint64_t> pending_gets{0}, pending_puts{0}, pending_put_bytes{0};
    std::atomic<uint64_t> index_bytes{0};
};

struct StoreState {
    StoreState(const DiskOptions& disk_options, std::unique_ptr<DiskDir> disk_dir)
        : options(disk_options),
          io(*disk_options.io),
          clock(*disk_options.clock),
          dir(std::move(disk_dir)),
          files(*dir, disk_options.direct_io),
          health(clock, disk_options.retry_min_ns, disk_options.retry_max_ns),
          limited_log(clock) {}

    const DiskOptions options;
    IoEngine& io;
    const Clock& clock;
    std::unique_ptr<DiskDir> dir;
    SegmentFiles files;
    Catalog catalog;
    Health health;
    StoreCounters counters;
    log::Limiter limited_log;
    // Hands records of slabs that were forgotten to the journal's owner. Does not wait.
    std::function<void(std::vector<IndexRecord>)> journal_later;

    // Forgets the slab if it is still at that place, and has that journalled.
    void forget(const BlockKey& key, const DiskPlace& place);
    // Forgets everything in a segment whose file is gone.
    void forget_segment(uint32_t id);
};

}  // namespace quire
