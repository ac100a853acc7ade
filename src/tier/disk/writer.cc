// The thread, its messages and admission. Completion and housekeeping: writer_finish.cc.
#include "tier/disk/writer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "format/segment.h"

namespace quire {
namespace {

constexpr int64_t kIdleWaitNs = 1'000'000'000;
constexpr int64_t kStalledWaitNs = 1'000'000;
constexpr int64_t kReaderWaitNs = 2'000'000'000;  // for readers of a deleted segment to let go
constexpr uint64_t kSmallFilesBytes = 16 << 10;   // LOCK, FORMAT and their blocks
constexpr uint64_t kDeviceSlackBytes = 64 << 10;  // blocks of folder, journal and checkpoint
constexpr int kMaxCleansPerRoll = 8;

Error not_now(const std::string& why) {
    return make_error(Code::rejected, "the disk store does not take writes now: " + why);
}

}  // namespace

Writer::Writer(StoreState& state, IndexLog::Start start, uint32_t next_segment)
    : state_(state),
      log_(*state.dir, state.io, state.clock, std::move(start)),
      cleaner_(state, log_),
      next_segment_(next_segment),
      window_(state.io, state.options.io_depth,
              [box = mailbox_](uint64_t tag, Result<size_t> result) {
                  box->post(Event{tag, std::move(result)});
              }),
      last_sync_ns_(state.clock.monotonic_ns()),
      thread_([this] { run(); }) {}

Writer::~Writer() {
    stopping_.store(true);
    mailbox_->notify();
    thread_.join();
}

void Writer::post(std::vector<TierPut> batch, TierDone done) {
    auto job = std::make_unique<Job>();
    for (const TierPut& put : batch) job->bytes += put.slab.size();
    job->results.assign(batch.size(), Status());
    job->puts = std::move(batch);
    job->done = std::move(done);
    job->start_ns = state_.clock.monotonic_ns();
    job->number = posted_jobs_.fetch_add(1) + 1;
    mailbox_->post(std::move(job));
}

void Writer::journal_later(std::vector<IndexRecord> records) {
    mailbox_->post(std::move(records));
}

Status Writer::flush(int64_t timeout_ns) {
    auto flush = std::make_shared<Flush>();
    flush->up_to = posted_jobs_.load();
    mailbox_->post(flush);
    std::unique_lock lock(flush->mutex);
    if (!flush->ready.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                               [&] { return flush->result.has_value(); })) {
        return make_error(Code::timeout, "disk flush did not end in time; writes go on");
    }
    return *flush->result;
}

int64_t Writer::wait_ns() const {
    bool poll = window_.stalled() || (!queue_.empty() && window_.has_room());
    return poll ? kStalledWaitNs : kIdleWaitNs;
}

void Writer::run() {
    // A damaged index is replaced before its size could cost blocks.
    maybe_checkpoint();
    shrink();
    next_checkpoint_ns_ = 0;
    // Headers belong to no job, but their memory is ours while they are written.
    while (!stopping_.load() || finished_jobs_.load() < posted_jobs_.load() || !groups_.empty()) {
        mailbox_->wait(wait_ns());
        for (Message& message : mailbox_->drain()) take(std::move(message));
        admit_all();
        window_.pump();
        publish_ready();
        append_pending();
        // Publishing settles segments, which may let a waiting job go on.
        admit_all();
        finish_jobs();
        maybe_checkpoint();
        maybe_sync();
        answer_flushes();
    }
    for (Message& message : mailbox_->drain()) take(std::move(message));
    close();
    answer_flushes();
}

void Writer::take(Message message) {
    if (auto* job = std::get_if<std::unique_ptr<Job>>(&message)) {
        queue_.push_back(std::move(*job));
    } else if (auto* event = std::get_if<Event>(&message)) {
        finish_group(event->tag, event->result);
    } else if (auto* records = std::get_if<Records>(&message)) {
        pending_records_.insert(pending_records_.end(), records->begin(), records->end());
    } else {
        flushes_.push_back(std::get<FlushPtr>(std::move(message)));
    }
}

void Writer::admit_all() {
    while (!queue_.empty() && window_.has_room()) {
        if (!admit(*queue_.front())) break;
        active_jobs_.push_back(std::move(queue_.front()));
        queue_.pop_front();
    }
    send_group();
}

bool Writer::admit(Job& job) {
    for (; job.next < job.puts.size(); job.next++) {
        const TierPut& put = job.puts[job.next];
        Status& result = job.results[job.next];
        result = admissible(put);
        if (!result.ok() || already_there(put)) continue;
        result = may_write();
        if (!result.ok()) continue;
        auto where = place(static_cast<uint16_t>(put.slab.size() / kDiskUnitBytes));
        if (where.ok()) {
            add_to_group(job, job.next, *where);
        } else if (where.code() == Code::busy) {
            return false;
        } else {
            result = where.error();
            write_failed(where.error());
        }
    }
    return true;
}

// After the journal failed, it must take a page before a slab is written that it could not tell of.
Status Writer::may_write() {
    if (!state_.health.may_write()) return not_now(state_.health.why());
    if (!journal_failed_) return {};
    Status status = log_.probe();
    journal_failed_ = !status.ok();
    if (!status.ok()) write_failed(status.error());
    return status;
}

Status Writer::admissible(const TierPut& put) const {
    if (put.slab.size() % kDiskUnitBytes != 0 || put.slab.size() <= kSlabHeaderBytes ||
        reinterpret_cast<uintptr_t>(put.slab.data()) % kDiskUnitBytes != 0) {
        return make_error(Code::invalid, "a slab of " + std::to_string(put.slab.size()) +
                                             " bytes is not a multiple of 4 KiB, or not aligned");
    }
    const uint64_t most = state_.options.segment_bytes - kSegmentHeaderBytes;
    if (put.slab.size() > most || put.slab.size() / kDiskUnitBytes > UINT16_MAX) {
        return make_error(Code::rejected, "a slab of " + std::to_string(put.slab.size()) +
                                              " bytes does not fit in a segment of " +
                                              std::to_string(state_.options.segment_bytes) +
                                              "; give the disk tier more space");
    }
    if (Status status = verify_slab_header(put.slab); !status.ok()) {
        return make_error(Code::invalid,
                          "put of a slab that is not sealed: " + status.error().message);
    }
    if (slab_header(put.slab).key != put.key) {
        return make_error(Code::invalid, "put of a slab under another key than its own");
    }
    return {};
}

bool Writer::already_there(const TierPut& put) const {
    std::shared_lock lock(state_.catalog.mutex());
    Slot slot = state_.catalog.find(put.key);
    if (slot == kNoSlot) return false;
    state_.catalog.touch(slot);
    return true;
}

Result<DiskPlace> Writer::place(uint16_t units) {
    if (auto place = active_.place(units)) return *place;
    QUIRE_TRY(roll(units));
    auto place = active_.place(units);
    QUIRE_CHECK(place.has_value(), "a fresh segment holds any admissible slab");
    return *place;
}

void Writer::add_to_group(Job& job, size_t index, const DiskPlace& place) {
    const TierPut& put = job.puts[index];
    bool follows =
        !open_group_.items.empty() && open_group_.file->id() == place.segment &&
        open_group_.items.back().place.offset_units + open_group_.items.back().place.units ==
            place.offset_units;
    bool full = open_group_.bytes + put.slab.size() > state_.options.io_bytes ||
                open_group_.items.size() >= kMaxIoParts;
    if (!open_group_.items.empty() && (!follows || full)) send_group();
    open_group_.file = active_.file();
    open_group_.failures_before = failures_;
    open_group_.items.push_back({&job, index, place});
    open_group_.parts.push_back({const_cast<std::byte*>(put.slab.data()), put.slab.size()});
    open_group_.bytes += put.slab.size();
    job.waiting++;
}

void Writer::send_group() {
    if (open_group_.items.empty()) return;
    const uint64_t offset = uint64_t{open_group_.items.front().place.offset_units} * kDiskUnitBytes;
    send(std::exchange(open_group_, {}), offset);
}

void Writer::send(Group group, uint64_t offset) {
    const uint64_t tag = next_tag_++;
    unsettled_[group.file->id()]++;
    Group& kept = groups_[tag] = std::move(group);
    window_.push(io_writev(kept.file->fd(), offset, kept.parts, tag));
    window_.pump();
}

// A group without puts. Nothing waits for it: the index and the slabs do without.
void Writer::send_header(uint64_t segment_bytes) {
    struct alignas(kDiskUnitBytes) Page {
        SegmentHeader header;
    };
    auto page = std::make_shared<Page>();
    page->header = make_segment_header(active_.id(), segment_bytes, state_.clock.wall_ns());
    Group group;
    group.file = active_.file();
    group.parts.push_back({&page->header, sizeof(page->header)});
    group.failures_before = failures_;
    group.memory = std::move(page);
    send(std::move(group), 0);
}

uint64_t Writer::slab_count() const {
    std::shared_lock lock(state_.catalog.mutex());
    return state_.catalog.map().live_count();
}

uint64_t Writer::used_bytes() const {
    return state_.files.bytes() + log_.worst_bytes(slab_count()) + kSmallFilesBytes;
}

// The active segment is full (or there is none): makes the next one. One segment's worth of space
// is kept free, so that there is always room to move slabs out of a segment before it is deleted.
Status Writer::roll(uint32_t needed_units) {
    const DiskOptions& options = state_.options;
    send_group();
    seal_active();
    for (int i = 0; used_bytes() + options.segment_bytes > options.capacity_bytes; i++) {
        if (i == kMaxCleansPerRoll) return make_error(Code::busy, "cleaning goes on");
        QUIRE_TRY(clean_one(0));
    }
    if (!state_.dir->still_ours()) {
        return make_error(Code::io,
                          "the directory " + state_.dir->path() +
                              " was deleted or emptied while in use; put it back or restart");
    }
    auto file = state_.files.create(next_segment_, options.segment_bytes);
    if (file.code() == Code::full) {
        QUIRE_TRY(make_room_on_device(file.error()));
        file = state_.files.create(next_segment_, options.segment_bytes);
    }
    if (!file.ok()) return file.error();
    active_.start(state_, *file, options.segment_bytes);
    send_header(options.segment_bytes);
    next_segment_++;
    for (int i = 0; i < kMaxCleansPerRoll; i++) {
        if (used_bytes() + options.segment_bytes <= options.capacity_bytes) break;
        const auto quarter = static_cast<uint32_t>(options.segment_bytes / kDiskUnitBytes / 4);
        Status status = clean_one(std::min(quarter, (active_.free_units() - needed_units) / 2));
        if (status.code() == Code::busy) break;
        QUIRE_TRY(status);
    }
    return {};
}

// The device is smaller than the limit we were given, or others fill it: make do with what there
// is. Old segments go only where that makes room for a new one and for its records, and never many
// more than were written since: a device that others keep full costs two segments and not the
// cache.
Status Writer::make_room_on_device(const Error& why) {
    const uint64_t segment = state_.options.segment_bytes;
    const uint64_t needed =
        segment + segment / 16 + (slab_count() + 4) * kRecordBytes + kDeviceSlackBytes;
    uint64_t sealed = 0;
    {
        std::shared_lock lock(state_.catalog.mutex());
        for (const auto& [id, known] : state_.catalog.segments()) {
            if (known.sealed) sealed += known.file_bytes;
        }
    }
    if (state_.dir->free_bytes() + sealed < needed) return why;
    while (state_.dir->free_bytes() < needed) {
        if (exchanged_bytes_ >= 2 * segment) return why;
        const uint64_t before = state_.files.bytes();
        QUIRE_TRY(clean_one(0));
        exchanged_bytes_ += before - std::min(before, state_.files.bytes());
    }
    return {};
}

// Sound blocks must not pay for index files that nobody needs.
Status Writer::replace_oversized_index() {
    if (!log_.oversized(slab_count(), state_.options.checkpoint_bytes)) return {};
    Status status = log_.checkpoint(state_.catalog);
    if (status.ok()) records_lost_ = false;
    return status;
}

// The limit may be lower than when the directory was last used.
void Writer::shrink() {
    if (state_.dir->read_only()) return;
    while (used_bytes() > state_.options.capacity_bytes) {
        if (Status status = clean_one(0); !status.ok()) {
            log::warn("disk_shrink_failed", "{}", status.error().message);
            return;
        }
    }
}

Status Writer::clean_one(uint32_t budget_units) {
    QUIRE_TRY(replace_oversized_index());
    std::optional<uint32_t> victim;
    {
        std::shared_lock lock(state_.catalog.mutex());
        victim = budget_units > 0 ? state_.catalog.least_valuable()
                                  : victim_without_moves(state_.catalog);
    }
    if (!victim) {
        if (!unsettled_.empty()) return make_error(Code::busy, "every segment is being written");
        return make_error(Code::full, "nothing is left to clean: " + state_.dir->path() +
                                          " holds " + std::to_string(used_bytes()) + " of " +
                                          std::to_string(state_.options.capacity_bytes) +
                                          " bytes; give the disk tier more space");
    }
    std::erase_if(unsynced_, [&](const auto& file) { return file->id() == *victim; });
    const uint64_t before = state_.files.bytes();
    QUIRE_TRY(cleaner_.clean(*victim, active_, budget_units));
    // Readers may still hold the deleted file open, and then its space is not free yet.
    if (!state_.files.wait_below(before - 1, kReaderWaitNs)) {
        return make_error(Code::busy, "a deleted segment is still being read");
    }
    return {};
}

void Writer::seal_active() {
    if (!active_.open()) return;
    SegmentFiles::FilePtr file = active_.file();
    const uint64_t bytes = uint64_t{active_.end_units()} * kDiskUnitBytes;
    active_.close();
    // Space reserved and not used goes back; should that fail it merely stays reserved.
    (void)state_.files.truncate(file, bytes);
    const uint32_t id = file->id();
    unsynced_.push_back(file);
    closing_[id] = std::move(file);
    seal_if_settled(id);
}

void Writer::seal_if_settled(uint32_t segment) {
    auto it = closing_.find(segment);
    if (it == closing_.end() || unsettled_.contains(segment)) return;
    give_back_unused(it->second);
    std::unique_lock lock(state_.catalog.mutex());
    const auto& segments = state_.catalog.segments();
    if (auto known = segments.find(segment); known != segments.end()) {
        state_.catalog.seal_segment(segment, state_.files.size_of(segment));
    }
    lock.unlock();
    closing_.erase(it);
}

// What was placed and never published, as when its write or its record failed. A segment with
// nothing else in it goes.
void Writer::give_back_unused(const SegmentFiles::FilePtr& file) {
    const uint32_t id = file->id();
    uint32_t end_units = 0;
    {
        std::shared_lock lock(state_.catalog.mutex());
        const auto& segments = state_.catalog.segments();
        auto known = segments.find(id);
        if (known == segments.end()) return;
        end_units = known->second.end_units;
    }
    if (end_units > 1) {
        const uint64_t bytes = uint64_t{end_units} * kDiskUnitBytes;
        if (bytes < state_.files.size_of(id)) (void)state_.files.truncate(file, bytes);
        return;
    }
    if (!state_.files.remove(id).ok()) return;
    std::erase_if(unsynced_, [&](const auto& other) { return other->id() == id; });
    std::unique_lock lock(state_.catalog.mutex());
    state_.catalog.drop_segment(id);
}

}  // namespace quire
