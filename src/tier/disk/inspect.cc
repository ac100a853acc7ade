// Looking at a directory from outside, and rebuilding its index from the slabs themselves.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include <fcntl.h>
#include <unistd.h>

#include "base/arena.h"
#include "format/segment.h"
#include "tier/disk/dir.h"
#include "tier/disk/disk.h"
#include "tier/disk/recovery.h"

namespace quire {
namespace {

constexpr size_t kMaxDamageLines = 100;
constexpr uint64_t kProgressEvery = 256;

// A slab-sized buffer that grows; nothing when memory is short.
class SlabBuffer {
 public:
    std::optional<std::span<std::byte>> of(size_t bytes) {
        if (bytes > memory_.size()) {
            auto larger = Arena::create({.bytes = bytes});
            if (!larger.ok()) return std::nullopt;
            memory_ = std::move(*larger);
        }
        return memory_.bytes().first(bytes);
    }

 private:
    Arena memory_;
};

class Inspector {
 public:
    Inspector(const DiskDir& dir, bool verify, const DiskProgress& progress)
        : dir_(dir), verify_(verify), progress_(progress) {}

    Result<DiskReport> run() {
        report_.format_version = kDiskFormatVersion;
        auto files = dir_.list();
        if (!files.ok()) return files.error();
        for (const auto& file : *files) report_.file_bytes += file.bytes;
        auto found = recover_index(dir_, catalog_, Scan::if_lost);
        if (!found.ok()) return found.error();
        note_index(*found);
        report_.index_records = found->records;
        report_.segments = catalog_.segments().size();
        report_.blocks = catalog_.map().live_count();
        report_.block_bytes = catalog_.live_bytes();
        for (const auto& [id, segment] : catalog_.segments()) {
            if (segment.live_units > 0) look_at_segment(segment);
        }
        if (progress_) progress_(done_, report_.blocks);
        return std::move(report_);
    }

 private:
    void note(const std::string& file, const std::string& what) {
        if (report_.damage.size() < kMaxDamageLines) report_.damage.push_back({file, what});
    }

    void note_index(const Recovered& found) {
        for (const std::string& line : found.notes) note("index", line);
        for (const auto& tail : found.torn) {
            note(tail.file,
                 "ends inside a record, " + std::to_string(tail.torn_bytes) + " bytes too many");
        }
        if (found.corrupt_records > 0) {
            note("index", std::to_string(found.corrupt_records) + " damaged records");
        }
        report_.lost_blocks = found.stale_records;
        for (const auto& [segment, blocks] : found.stale_by_segment)
            note(segment_file_name(segment), "the file was cut or deleted, and " +
                                                 std::to_string(blocks) + " blocks with it");
    }

    void look_at_segment(const SegmentState& segment) {
        const std::string name = segment_file_name(segment.id);
        auto fd = dir_.open_file(name, O_RDONLY);
        if (!fd.ok()) {
            note(name, fd.error().message);
            report_.damaged_blocks += segment.slots.size();
            return;
        }
        auto head = buffer_.of(kSegmentHeaderBytes);
        if (head && read_exact(fd->get(), 0, *head).ok()) {
            if (auto header = parse_segment_header(*head); !header.ok()) {
                note(name, header.error().message);
            }
        }
        for (Slot slot : segment.slots) {
            const SlotEntry& entry = catalog_.at(slot);
            if (!entry.live() || entry.segment != segment.id) continue;
            if (Status status = look_at_slab(fd->get(), entry); !status.ok()) {
                report_.damaged_blocks++;
                note(name, "slab at byte " + std::to_string(entry.offset_units * kDiskUnitBytes) +
                               ": " + status.error().message);
            }
            if (progress_ && ++done_ % kProgressEvery == 0) progress_(done_, report_.blocks);
        }
    }

    Status look_at_slab(int fd, const SlotEntry& entry) {
        const size_t bytes = verify_ ? entry.units * kDiskUnitBytes : kSlabHeaderBytes;
        auto buffer = buffer_.of(bytes);
        if (!buffer) return make_error(Code::full, "no memory to read it");
        QUIRE_TRY(read_exact(fd, uint64_t{entry.offset_units} * kDiskUnitBytes, *buffer));
        QUIRE_TRY(verify_ ? verify_slab(*buffer) : verify_slab_header(*buffer));
        const SlabHeader& header = slab_header(std::span<const std::byte>(*buffer));
        if (header.key != entry.key) return make_error(Code::corrupt, "another key than indexed");
        if (verify_) report_.verified_blocks++;
        report_.blocks_by_model[header.model.value.to_hex()]++;
        const size_t tenant_bytes = std::min<size_t>(header.tenant_bytes, kTenantBytesMax);
        report_.blocks_by_tenant[std::string(header.tenant.data(), tenant_bytes)]++;
        report_.blocks_by_codec[header.codec]++;
        report_.blocks_by_packing[header.packed.packing]++;
        report_.blocks_by_tokens[header.token_count]++;
        report_.codecs_by_model[header.model.value.to_hex()].insert(header.codec);
        return {};
    }

    const DiskDir& dir_;
    const bool verify_;
    const DiskProgress& progress_;
    Catalog catalog_;
    DiskReport report_;
    SlabBuffer buffer_;
    uint64_t done_ = 0;
};

}  // namespace

Result<DiskReport> inspect_disk(const std::string& dir, bool verify, const DiskProgress& progress) {
    auto opened = DiskDir::open(dir, DirUse::read);
    if (!opened.ok()) return opened.error();
    return Inspector(**opened, verify, progress).run();
}

Result<uint64_t> rebuild_index(const std::string& dir) {
    auto opened = DiskDir::open(dir, DirUse::write);
    if (!opened.ok()) return opened.error();
    if ((*opened)->read_only()) {
        return make_error(Code::io, dir + " is read-only; its index cannot be rebuilt");
    }
    Catalog catalog;
    auto found = recover_index(**opened, catalog, Scan::always);
    if (!found.ok()) return found.error();
    auto io = make_io_engine({});
    if (!io.ok()) return io.error();
    IndexLog log(**opened, **io, system_clock(), found->log);
    QUIRE_TRY(log.checkpoint(catalog));
    return catalog.map().live_count();
}

}  // namespace quire
