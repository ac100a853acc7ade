// Recovery: from the index files of a directory to a catalog, in time proportional to the index.
//
// Reads the newest checkpoint and the journals after it; segments are only listed. What the index
// says is believed as far as the files go (a slab must lie inside an existing segment); reads
// verify the rest. When the index itself is lost, the slab headers are scanned instead.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "tier/disk/catalog.h"
#include "tier/disk/dir.h"
#include "tier/disk/index_log.h"

namespace quire {

struct Recovered {
    IndexLog::Start log;  // where writing goes on
    uint32_t next_segment = 1;
    uint64_t records = 0;
    uint64_t corrupt_records = 0;   // skipped, counted
    // Slabs whose segment is cut or gone, though nobody dropped it; and by segment.
    uint64_t stale_records = 0;
    std::map<uint32_t, uint64_t> stale_by_segment;
    uint64_t scanned_segments = 0;  // by header, because the index was lost
    std::vector<uint32_t> orphans;  // segments that hold nothing published
    struct Tail {
        std::string file;
        uint64_t sound_bytes = 0;
        uint64_t torn_bytes = 0;
    };
    std::vector<Tail> torn;               // index files with no sound record behind some byte
    std::vector<std::string> unusable;    // index files whose first 64 bytes say they are none
    std::vector<std::string> superseded;  // index files that a newer checkpoint made useless
    std::vector<std::string> notes;       // damage, one line each, for people
    std::vector<std::string> litter;      // temporary files of a checkpoint that never finished
};

enum class Scan : uint8_t {
    if_lost,  // scan segment headers only when there is no usable index
    never,
    always,
};

// Fills the (empty) catalog. Changes nothing on disk.
Result<Recovered> recover_index(const DiskDir& dir, Catalog& catalog, Scan scan);

}  // namespace quire
