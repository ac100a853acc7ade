// IndexLog: the writing side of a store's index: the current journal and the checkpoints before it.
//
// Journal E holds what happened after checkpoint E was taken; checkpoint 0 does not exist and is
// empty. A checkpoint first opens the next journal, then dumps the catalog into a temporary file,
// renames it and deletes what it replaces, so that at any instant (highest checkpoint + journals
// from its epoch on) is the whole index. Owned by one thread, the store's writer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/io.h"
#include "base/result.h"
#include "format/record.h"
#include "tier/disk/catalog.h"
#include "tier/disk/dir.h"

namespace quire {

std::string index_file_name(IndexFileKind kind, uint64_t epoch);
std::optional<uint64_t> parse_index_file_name(IndexFileKind kind, std::string_view name);

// The record that publishes a live slab.
IndexRecord put_record(const Catalog& catalog, Slot slot);

class IndexLog {
 public:
    struct Start {
        uint64_t next_epoch = 1;
        uint64_t next_sequence = 1;
        // What recovery found and a checkpoint will replace: name -> bytes.
        std::map<std::string, uint64_t> old_files;
        // They do not tell the whole truth: a checkpoint must replace them soon.
        bool damaged = false;
    };

    IndexLog(const DiskDir& dir, IoEngine& io, const Clock& clock, Start start)
        : dir_(dir),
          io_(io),
          clock_(clock),
          old_files_(std::move(start.old_files)),
          next_epoch_(start.next_epoch),
          next_sequence_(start.next_sequence),
          broken_(start.damaged) {}

    // Appends the records with one write, giving them sequence numbers and checksums. On error none
    // of them counts: the file is cut back, or given up for a new journal at the next append.
    Status append(std::vector<IndexRecord> records);
    // Tries whether an append would find space now: writes a page behind the journal and cuts it
    // off.
    Status probe();
    // Dumps the catalog. On error everything is as before, but for a journal more.
    Status checkpoint(const Catalog& catalog);
    // Makes the journal durable.
    Status sync();

    // Bytes of all index files now, and at worst while the next checkpoint of `slabs` is written.
    uint64_t bytes() const;
    uint64_t worst_bytes(uint64_t slabs) const;
    // The journal has outgrown what it describes, or there are too many of them.
    bool wants_checkpoint(uint64_t slabs, uint64_t min_journal_bytes) const;
    // The index files take far more than what they describe explains.
    bool oversized(uint64_t slabs, uint64_t min_journal_bytes) const;
    // A journal that could not be repaired lost records: only a checkpoint tells the truth again.
    bool broken() const { return broken_; }
    // The journal was deleted under us: the directory is gone.
    bool vanished() const;

 private:
    Status open_journal();
    Status write_at(int fd, uint64_t offset, std::span<const std::byte> bytes);
    Result<uint64_t> dump(const Catalog& catalog, int fd, uint64_t epoch);

    const DiskDir& dir_;
    IoEngine& io_;
    const Clock& clock_;
    std::map<std::string, uint64_t> old_files_;
    uint64_t next_epoch_;
    uint64_t next_sequence_;
    uint64_t epoch_ = 0;  // of the open journal
    Fd journal_;
    uint64_t journal_bytes_ = 0;
    bool broken_;
};

}  // namespace quire
