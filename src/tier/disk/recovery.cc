#include "tier/disk/recovery.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "format/segment.h"

namespace quire {
namespace {

constexpr size_t kChunkBytes = 1 << 20;
// So much without one sound record ends an index file: no crash and no bad block looks like that.
constexpr uint64_t kMaxDarkBytes = 64 << 20;
static_assert(kChunkBytes % kRecordBytes == 0);

// Reads up to `into.size()` bytes; fewer only at the end of the file.
Result<size_t> read_full(int fd, uint64_t offset, std::span<std::byte> into) {
    size_t done = 0;
    while (done < into.size()) {
        ssize_t n =
            ::pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno_error("read", errno);
        if (n == 0) break;
        done += static_cast<size_t>(n);
    }
    return done;
}

// The first byte at or after `offset` that is not in a hole, rounded down to a record; nothing when
// the rest of the file is one. Where the file system cannot tell, there are no holes.
std::optional<uint64_t> next_data(int fd, uint64_t offset) {
    const off_t at = ::lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
    if (at < 0) return errno == ENXIO ? std::nullopt : std::optional(offset);
    return std::max(offset, static_cast<uint64_t>(at) / kRecordBytes * kRecordBytes);
}

// What a segment was made with, which is where its slabs end; where its header is lost, what an
// index could name.
uint64_t reserved_bytes(int fd) {
    std::vector<std::byte> page(kSegmentHeaderBytes);
    const auto got = read_full(fd, 0, page);
    const auto header = parse_segment_header(std::span(page).first(got.ok() ? *got : 0));
    const uint64_t most = (uint64_t{1} << 32) * kDiskUnitBytes;
    return header.ok() ? std::min(header->capacity_bytes, most) : most;
}

class Loader {
 public:
    Loader(const DiskDir& dir, Catalog& catalog) : dir_(dir), catalog_(catalog) {}

    Result<Recovered> run(Scan scan) {
        QUIRE_TRY(list());
        bool lost = scan == Scan::always || !load_index();
        if (lost && scan != Scan::never && !segments_.empty()) scan_all();
        finish();
        return std::move(out_);
    }

 private:
    Status list() {
        auto files = dir_.list();
        if (!files.ok()) return files.error();
        for (const DiskDir::File& file : *files) {
            if (auto id = parse_segment_file_name(file.name)) {
                if (file.regular)
                    segments_[*id] = file.bytes;
                else
                    out_.notes.push_back(file.name + " is not a regular file; delete it");
                out_.next_segment = std::max(out_.next_segment, *id + 1);
            } else if (auto c = parse_index_file_name(IndexFileKind::checkpoint, file.name)) {
                checkpoints_[*c] = file;
            } else if (auto j = parse_index_file_name(IndexFileKind::journal, file.name)) {
                journals_[*j] = file;
            } else if (file.name.ends_with(".tmp")) {
                out_.litter.push_back(file.name);
            }
        }
        std::unique_lock lock(catalog_.mutex());
        for (const auto& [id, bytes] : segments_) catalog_.add_segment(id, bytes, true);
        return {};
    }

    // False when the index does not reach back to the beginning: it is lost, in part or whole.
    bool load_index() {
        uint64_t base = 0;
        bool whole = false;
        for (auto it = checkpoints_.rbegin(); it != checkpoints_.rend(); ++it) {
            auto scan = load_file(it->second, IndexFileKind::checkpoint);
            if (!scan.ok()) {
                unusable(it->second, scan.error());
                continue;
            }
            base = it->first;
            whole = scan->ended;
            if (!whole) out_.notes.push_back(it->second.name + ": damaged or cut short");
            note_tail(it->second, *scan);
            break;
        }
        note_superseded(base);
        uint64_t expected = base == 0 ? 1 : base;
        if (base == 0) whole = journals_.contains(1) || segments_.empty();
        for (const auto& [epoch, file] : journals_) {
            if (epoch < base) continue;
            if (epoch != expected) whole = false;
            expected = epoch + 1;
            auto scan = load_file(file, IndexFileKind::journal);
            if (!scan.ok()) {
                unusable(file, scan.error());
                // An empty newest journal is what a crash while creating it leaves.
                if (file.bytes >= sizeof(IndexFileHeader) || !file.regular) whole = false;
            } else {
                note_tail(file, *scan);
            }
        }
        if (!whole && !segments_.empty()) {
            out_.notes.push_back("the index is incomplete; scanning slab headers instead");
        }
        out_.log.damaged |= !whole && !segments_.empty();
        return whole;
    }

    void unusable(const DiskDir::File& file, const Error& error) {
        out_.notes.push_back(file.name + ": " + error.message);
        out_.log.damaged = true;
        const bool sure = error.code == Code::corrupt || error.code == Code::unsupported;
        if (sure) out_.unusable.push_back(file.name);
    }

    void note_tail(const DiskDir::File& file, const RecordScan& scan) {
        if (scan.tail_bytes == 0) return;
        out_.torn.push_back({file.name, scan.sound_bytes, scan.tail_bytes});
    }

    // What a crash between a checkpoint's rename and the deletions after it leaves.
    void note_superseded(uint64_t base) {
        for (const auto* files : {&checkpoints_, &journals_}) {
            for (const auto& [epoch, file] : *files) {
                if (epoch < base) out_.superseded.push_back(file.name);
            }
        }
    }

    Result<RecordScan> load_file(const DiskDir::File& file, IndexFileKind kind) {
        auto fd = dir_.open_file(file.name, O_RDONLY);
        if (!fd.ok()) return fd.error();
        const uint64_t small = (file.bytes / kRecordBytes + 1) * kRecordBytes;
        std::vector<std::byte> chunk(std::min<uint64_t>(kChunkBytes, small));
        auto got = read_full(fd->get(), 0, std::span(chunk).first(sizeof(IndexFileHeader)));
        if (!got.ok()) return got.error();
        auto header = parse_index_header(std::span(chunk).first(*got), kind);
        if (!header.ok()) return header.error();
        if (parse_index_file_name(kind, file.name) != header->epoch) {
            return make_error(Code::corrupt, "holds another epoch than its name says");
        }
        std::unique_lock lock(catalog_.mutex());
        if (kind == IndexFileKind::checkpoint) {
            catalog_.reserve(std::min(file.bytes / kRecordBytes, header->record_count));
        }
        RecordScanner scanner(*header);
        uint64_t offset = sizeof(IndexFileHeader);
        for (uint64_t dark = 0; dark < kMaxDarkBytes;) {
            if (dark > 0) {
                auto data = next_data(fd->get(), offset);
                if (!data) break;
                scanner.skip(*data - offset);
                offset = *data;
            }
            got = read_full(fd->get(), offset, chunk);
            if (!got.ok()) return got.error();
            const uint64_t sound = scanner.result().sound_bytes;
            scanner.feed(std::span(chunk).first(*got),
                         [this](const IndexRecord& record) { apply(record); });
            dark = scanner.result().sound_bytes == sound ? dark + *got : 0;
            offset += *got;
            if (*got < chunk.size()) break;
        }
        RecordScan scan = scanner.result();
        // Also what was not read.
        scan.tail_bytes = file.bytes - std::min(file.bytes, scan.sound_bytes);
        out_.records += scan.records;
        out_.corrupt_records += scan.corrupt_records;
        uint64_t sequence = std::max(scan.last_sequence + 1, header->first_sequence);
        out_.log.next_sequence = std::max(out_.log.next_sequence, sequence);
        return scan;
    }

    void apply(const IndexRecord& record) {
        out_.next_segment = std::max(out_.next_segment, record.segment + 1);
        if (record.op == RecordOp::drop_segment) {
            dropped_.insert(record.segment);
            // The segment stays known while its file is there: it is an orphan to delete.
            auto file = segments_.find(record.segment);
            catalog_.drop_segment(record.segment);
            if (file != segments_.end()) {
                catalog_.add_segment(record.segment, file->second, true);
            }
            return;
        }
        DiskPlace place{record.segment, record.offset_units, record.units};
        if (record.op == RecordOp::erase) {
            if (auto gone = gone_.find(record.key); gone != gone_.end() && gone->second == place) {
                gone_.erase(gone);
            }
            Slot slot = catalog_.find(record.key);
            if (slot != kNoSlot && catalog_.at(slot).place() == place) catalog_.erase(slot);
            return;
        }
        if (!fits(place)) {
            gone_[record.key] = place;
            return;
        }
        gone_.erase(record.key);
        Slot slot = catalog_.publish(record.key, record.parent_key, place, record.value);
        catalog_.set_hits(slot, record.hits);
    }

    bool fits(const DiskPlace& place) const {
        auto it = segments_.find(place.segment);
        if (it == segments_.end() || place.units < 2 || place.offset_units == 0) return false;
        uint64_t end = (uint64_t{place.offset_units} + place.units) * kDiskUnitBytes;
        return end <= it->second;
    }

    void scan_all() {
        for (const auto& [id, bytes] : segments_) {
            scan_one(id, bytes);
            out_.scanned_segments++;
        }
    }

    void scan_one(uint32_t id, uint64_t bytes) {
        auto fd = dir_.open_file(segment_file_name(id), O_RDONLY);
        if (!fd.ok()) {
            out_.notes.push_back(fd.error().message);
            return;
        }
        bytes = std::min(bytes, reserved_bytes(fd->get()));
        auto read = [&](uint64_t offset, std::span<std::byte> into) -> Status {
            auto got = read_full(fd->get(), offset, into);
            if (!got.ok()) return got.error();
            if (*got < into.size()) return make_error(Code::corrupt, "the file ends here");
            return {};
        };
        auto visit = [&](uint64_t offset, const SlabHeader& header) {
            uint64_t units = slab_disk_bytes(header) / kDiskUnitBytes;
            if (units > UINT16_MAX) return;
            std::unique_lock lock(catalog_.mutex());
            if (catalog_.find(header.key) != kNoSlot) return;
            catalog_.publish(
                header.key, header.parent_key,
                {id, static_cast<uint32_t>(offset / kDiskUnitBytes), static_cast<uint16_t>(units)},
                1);
        };
        auto data = [&](uint64_t offset) {
            return next_data(fd->get(), offset).value_or(std::numeric_limits<uint64_t>::max());
        };
        SegmentScan scan = scan_segment(bytes, read, visit, data);
        if (!scan.first_damage.empty()) {
            out_.notes.push_back(segment_file_name(id) + ": " + scan.first_damage);
        }
    }

    void finish() {
        std::shared_lock lock(catalog_.mutex());
        for (const auto& [key, place] : gone_) {
            if (dropped_.contains(place.segment)) continue;
            ++out_.stale_records;
            ++out_.stale_by_segment[place.segment];
        }
        for (const auto& [id, segment] : catalog_.segments()) {
            if (segment.live_units == 0) out_.orphans.push_back(id);
        }
        for (auto* files : {&checkpoints_, &journals_}) {
            for (const auto& [epoch, file] : *files) {
                out_.log.old_files[file.name] = file.bytes;
                out_.log.next_epoch = std::max(out_.log.next_epoch, epoch + 1);
            }
        }
    }

    const DiskDir& dir_;
    Catalog& catalog_;
    Recovered out_;
    // Puts into a place that is not there, as long as no later record explains it: a journal tells
    // of a segment's whole life, also of one that was cleaned since.
    std::unordered_map<BlockKey, DiskPlace, Hash128Hasher> gone_;
    std::unordered_set<uint32_t> dropped_;
    std::map<uint32_t, uint64_t> segments_;
    std::map<uint64_t, DiskDir::File> checkpoints_;
    std::map<uint64_t, DiskDir::File> journals_;
};

}  // namespace

Result<Recovered> recover_index(const DiskDir& dir, Catalog& catalog, Scan scan) {
    return Loader(dir, catalog).run(scan);
}

}  // namespace quire
