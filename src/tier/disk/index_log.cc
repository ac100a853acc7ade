#include "tier/disk/index_log.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace quire {
namespace {

constexpr size_t kMaxJournals = 8;
constexpr uint64_t kOversized = 4;    // times what rows for every slab would take
constexpr size_t kProbeBytes = 8192;  // surely a new block of the file system
constexpr Slot kDumpSlots = 16384;    // 1 MiB of records an I/O

std::string_view prefix(IndexFileKind kind) {
    return kind == IndexFileKind::journal ? "journal-" : "checkpoint-";
}

}  // namespace

std::string index_file_name(IndexFileKind kind, uint64_t epoch) {
    char digits[17];
    std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(epoch));
    return std::string(prefix(kind)) + digits + ".quire";
}

std::optional<uint64_t> parse_index_file_name(IndexFileKind kind, std::string_view name) {
    std::string_view start = prefix(kind);
    if (name.size() != start.size() + 16 + 6 || !name.starts_with(start)) return std::nullopt;
    const char* digits = name.data() + start.size();
    uint64_t epoch = 0;
    auto [end, error] = std::from_chars(digits, digits + 16, epoch, 16);
    if (error != std::errc() || end != digits + 16) return std::nullopt;
    if (index_file_name(kind, epoch) != name) return std::nullopt;
    return epoch;
}

IndexRecord put_record(const Catalog& catalog, Slot slot) {
    const SlotEntry& entry = catalog.at(slot);
    IndexRecord record;
    record.op = RecordOp::put;
    record.hits = entry.hits_now();
    record.units = entry.units;
    record.key = entry.key;
    record.parent_key = catalog.map().parent_key(slot);
    record.segment = entry.segment;
    record.offset_units = entry.offset_units;
    record.value = entry.value;
    return record;
}

Status IndexLog::write_at(int fd, uint64_t offset, std::span<const std::byte> bytes) {
    IoRequest request = io_write(fd, offset, bytes);
    auto results = run_io(io_, std::span(&request, 1));
    if (!results[0].ok()) return results[0].error();
    return {};
}

Status IndexLog::open_journal() {
    const uint64_t epoch = next_epoch_;
    const std::string name = index_file_name(IndexFileKind::journal, epoch);
    auto fd = dir_.open_file(name, O_RDWR | O_CREAT | O_TRUNC);
    if (!fd.ok()) return fd.error();
    IndexFileHeader header =
        make_index_header(IndexFileKind::journal, epoch, next_sequence_, 0, clock_.wall_ns());
    Status status = write_at(fd->get(), 0, std::as_bytes(std::span(&header, 1)));
    if (!status.ok()) {
        (void)dir_.remove(name);
        return status;
    }
    if (journal_.valid()) {
        old_files_[index_file_name(IndexFileKind::journal, epoch_)] = journal_bytes_;
    }
    journal_ = std::move(*fd);
    journal_bytes_ = sizeof(header);
    epoch_ = epoch;
    next_epoch_ = epoch + 1;
    return {};
}

Status IndexLog::append(std::vector<IndexRecord> records) {
    if (records.empty()) return {};
    if (!journal_.valid()) QUIRE_TRY(open_journal());
    uint64_t sequence = next_sequence_;
    for (IndexRecord& record : records) {
        record.sequence = sequence++;
        seal_record(record, epoch_);
    }
    Status status = write_at(journal_.get(), journal_bytes_, std::as_bytes(std::span(records)));
    if (status.ok()) {
        journal_bytes_ += records.size() * kRecordBytes;
        next_sequence_ = sequence;
        return {};
    }
    // Records of a failed append must not come back to life at recovery.
    if (::ftruncate(journal_.get(), static_cast<off_t>(journal_bytes_)) != 0) broken_ = true;
    return status;
}

Status IndexLog::probe() {
    if (!journal_.valid()) QUIRE_TRY(open_journal());
    // Zeros are a torn tail, should the process die before they are cut off.
    const std::vector<std::byte> page(kProbeBytes);
    Status status = write_at(journal_.get(), journal_bytes_, page);
    if (::ftruncate(journal_.get(), static_cast<off_t>(journal_bytes_)) != 0) broken_ = true;
    return status;
}

Result<uint64_t> IndexLog::dump(const Catalog& catalog, int fd, uint64_t epoch) {
    IndexFileHeader header = make_index_header(IndexFileKind::checkpoint, epoch, next_sequence_,
                                               catalog.map().live_count(), clock_.wall_ns());
    QUIRE_TRY(write_at(fd, 0, std::as_bytes(std::span(&header, 1))));
    uint64_t offset = sizeof(header);
    uint32_t count = 0;
    std::vector<IndexRecord> records;
    records.reserve(kDumpSlots + 1);
    // In pieces, so that no reader waits for I/O. Slabs published meanwhile: none (this thread
    // publishes); erased meanwhile: their erase records go to the new journal.
    for (Slot begin = 0;; begin += kDumpSlots) {
        records.clear();
        bool last = false;
        {
            std::shared_lock lock(catalog.mutex());
            Slot limit = catalog.map().slot_limit();
            last = limit - begin <= kDumpSlots;
            Slot end = last ? limit : begin + kDumpSlots;
            for (Slot slot = begin; slot < end; slot++) {
                if (catalog.at(slot).live()) records.push_back(put_record(catalog, slot));
            }
        }
        count += static_cast<uint32_t>(records.size());
        if (last) {
            IndexRecord& end = records.emplace_back();
            end.op = RecordOp::end;
            end.value = count;
        }
        for (IndexRecord& record : records) {
            record.sequence = next_sequence_ - 1;
            seal_record(record, epoch);
        }
        QUIRE_TRY(write_at(fd, offset, std::as_bytes(std::span(records))));
        offset += records.size() * kRecordBytes;
        if (last) return offset;
    }
}

Status IndexLog::checkpoint(const Catalog& catalog) {
    QUIRE_TRY(open_journal());
    const std::string name = index_file_name(IndexFileKind::checkpoint, epoch_);
    const std::string tmp = name + ".tmp";
    auto fd = dir_.open_file(tmp, O_RDWR | O_CREAT | O_TRUNC);
    if (!fd.ok()) return fd.error();
    auto dumped = dump(catalog, fd->get(), epoch_);
    Status status = dumped.ok() ? Status() : Status(dumped.error());
    if (status.ok()) {
        IoRequest request = io_fdatasync(fd->get());
        auto results = run_io(io_, std::span(&request, 1));
        if (!results[0].ok()) status = results[0].error();
    }
    if (status.ok()) status = dir_.rename(tmp, name);
    if (!status.ok()) {
        (void)dir_.remove(tmp);
        return status;
    }
    // From here the new checkpoint counts; leftovers are only space.
    broken_ = false;
    QUIRE_TRY(dir_.sync());
    for (const auto& [old, bytes] : old_files_) (void)dir_.remove(old);
    old_files_.clear();
    old_files_[name] = *dumped;
    return {};
}

Status IndexLog::sync() {
    if (!journal_.valid()) return {};
    IoRequest request = io_fdatasync(journal_.get());
    auto results = run_io(io_, std::span(&request, 1));
    if (!results[0].ok()) return results[0].error();
    return {};
}

uint64_t IndexLog::bytes() const {
    uint64_t total = journal_bytes_;
    for (const auto& [name, bytes] : old_files_) total += bytes;
    return total;
}

uint64_t IndexLog::worst_bytes(uint64_t slabs) const {
    return bytes() + slabs * kRecordBytes + 4 * kRecordBytes;
}

bool IndexLog::wants_checkpoint(uint64_t slabs, uint64_t min_journal_bytes) const {
    if (broken_ || old_files_.size() > kMaxJournals) return true;
    uint64_t journals = journal_bytes_;
    for (const auto& [name, bytes] : old_files_) {
        if (parse_index_file_name(IndexFileKind::journal, name)) journals += bytes;
    }
    return journals > std::max(min_journal_bytes, slabs * kRecordBytes);
}

bool IndexLog::oversized(uint64_t slabs, uint64_t min_journal_bytes) const {
    return bytes() > kOversized * std::max(min_journal_bytes, slabs * kRecordBytes);
}

bool IndexLog::vanished() const {
    struct stat st{};
    return journal_.valid() && ::fstat(journal_.get(), &st) == 0 && st.st_nlink == 0;
}

}  // namespace quire
