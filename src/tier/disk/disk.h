// The disk tier (G3): slabs in append-only segments of one directory, found again after kill -9.
//
// One process at a time owns a directory (a lock says so). Data goes out with O_DIRECT in large
// writes; a journal record published after its data makes a slab visible; every read is verified
// before it counts. Disk full, EIO, damage, a read-only or vanished directory: each costs a miss or
// a rejected put, a counter and a log line, never wrong bytes and never the process. Formats and
// the crash argument: format/SPEC.md.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/io.h"
#include "base/result.h"
#include "tier/tier.h"

namespace quire {

struct DiskOptions {
    std::string dir;                       // created when missing; must be empty or ours
    uint64_t capacity_bytes = 0;           // all files together, never passed
    uint64_t segment_bytes = 64ull << 20;  // shrunk to a sixteenth of a small capacity
    bool direct_io = true;        // falls back to buffered I/O, with a log line, where refused
    bool read_only = false;       // serve what is there, write nothing
    bool allow_oversize = false;  // accept a capacity larger than the file system

    uint32_t io_depth = 16;              // reads, and writes, of whole slabs in flight at once
    uint64_t io_bytes = 2ull << 20;      // neighbours are grouped up to this much an I/O
    // A get of up to this much is taken by the device at once and lands at about one moment, so it
    // is read without pieces and nobody is told of layers.
    uint64_t at_once_bytes = 16ull << 20;
    uint32_t read_threads = 2;           // verify what was read
    uint32_t max_pending_batches = 256;  // gets, and puts, accepted and not finished
    uint64_t max_pending_put_bytes = 1ull << 30;
    int64_t sync_interval_ns =
        5'000'000'000;                    // fdatasync this often while writing; < 0: only flush
    uint64_t checkpoint_bytes = 1 << 20;  // of journal at least, before the next checkpoint
    int64_t retry_min_ns = 100'000'000;   // back-off after a failed write, doubling
    int64_t retry_max_ns = 30'000'000'000;

    IoEngine* io = nullptr;  // borrowed; outlives the store
    const Clock* clock = &system_clock();
};

// Opens or creates the store. Errors name the directory and the remedy: busy (another process holds
// it), invalid (foreign directory, capacity too small), unsupported (another format version), io.
Result<std::unique_ptr<TierStore>> open_disk_store(const DiskOptions& options);

struct DiskDamage {
    std::string file;  // name inside the directory
    std::string what;
};

struct DiskReport {
    uint32_t format_version = 0;
    uint64_t segments = 0;
    uint64_t blocks = 0;       // in the index
    uint64_t block_bytes = 0;  // of those
    uint64_t file_bytes = 0;   // of all files
    uint64_t verified_blocks = 0;
    uint64_t index_records = 0;
    std::map<std::string, uint64_t> blocks_by_model;   // model id in hex
    std::map<std::string, uint64_t> blocks_by_tenant;  // "" is the only tenant
    std::map<uint32_t, uint64_t> blocks_by_codec;
    std::map<uint32_t, uint64_t> blocks_by_packing;  // PackingId
    std::map<uint32_t, uint64_t> blocks_by_tokens;   // how many tokens one has
    std::map<std::string, std::set<uint32_t>> codecs_by_model;
    uint64_t damaged_blocks = 0;
    uint64_t lost_blocks = 0;  // of the index, in segments that were cut or deleted
    std::vector<DiskDamage> damage;  // the first 100
};

// Blocks looked at so far, of how many.
using DiskProgress = std::function<void(uint64_t done, uint64_t total)>;

// Reads a directory without changing it: the index, every slab's header and, with `verify`, every
// byte. busy while a process has the directory open.
Result<DiskReport> inspect_disk(const std::string& dir, bool verify,
                                const DiskProgress& progress = {});

// Writes a new index from the slab headers in the segments, for a directory whose index is lost or
// damaged; returns the number of slabs found. busy while a process has the directory open.
Result<uint64_t> rebuild_index(const std::string& dir);

}  // namespace quire
