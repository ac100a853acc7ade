// Completion of writes, publishing, and the writer's housekeeping. The rest: writer.cc.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/log.h"
#include "tier/disk/writer.h"

namespace quire {
namespace {

constexpr size_t kMaxUnsynced = 16;
constexpr int64_t kCheckpointRetryNs = 5'000'000'000;

IndexRecord record_of(const TierPut& put, const DiskPlace& place) {
    IndexRecord record;
    record.op = RecordOp::put;
    record.key = put.key;
    record.parent_key = slab_header(put.slab).parent_key;
    record.segment = place.segment;
    record.offset_units = place.offset_units;
    record.units = place.units;
    record.value = put.value;
    return record;
}

}  // namespace

void Writer::finish_group(uint64_t tag, const Result<size_t>& result) {
    auto node = groups_.extract(tag);
    Group& group = node.mapped();
    if (result.ok()) {
        ready_.push_back(std::move(group));
        return;
    }
    settle(group, result.error());
    write_failed(result.error());
    // What follows in this segment may fail too; go on in a fresh one after the back-off.
    if (active_.open() && active_.id() == group.file->id()) {
        send_group();
        seal_active();
    }
}

void Writer::write_failed(const Error& error) {
    failures_++;
    if (error.code == Code::io || error.code == Code::full) {
        if (error.code == Code::io) state_.counters.io_errors.fetch_add(1);
        state_.health.fail(error.message);
        state_.limited_log.warn("disk_write_failed",
                                "{}; blocks are not stored for now, reads go on", error.message);
    }
}

// Gives the group's puts their result; a segment without unfinished groups may be sealed.
void Writer::settle(const Group& group, const Status& status) {
    for (const Item& item : group.items) {
        if (!status.ok()) item.job->results[item.index] = status;
        item.job->waiting--;
    }
    const uint32_t id = group.file->id();
    auto it = unsettled_.find(id);
    if (it != unsettled_.end() && --it->second == 0) unsettled_.erase(it);
    seal_if_settled(id);
}

void Writer::publish_ready() {
    if (ready_.empty()) return;
    std::vector<Group> groups = std::exchange(ready_, {});
    publish(groups);
}

// Two puts of one block at once: the first stays, the second's bytes are dead.
Writer::Records Writer::new_records(const std::vector<Group>& groups) const {
    Records records;
    std::unordered_set<BlockKey, Hash128Hasher> seen;
    std::shared_lock lock(state_.catalog.mutex());
    for (const Group& group : groups) {
        for (const Item& item : group.items) {
            const TierPut& put = item.job->puts[item.index];
            if (!seen.insert(put.key).second) continue;
            if (state_.catalog.find(put.key) == kNoSlot) {
                records.push_back(record_of(put, item.place));
            }
        }
    }
    return records;
}

// One journal append for all groups that finished; then, and only then, they become visible.
void Writer::publish(std::vector<Group>& groups) {
    Records records = new_records(groups);
    uint64_t bytes = 0;
    uint64_t newest_attempt = 0;
    for (const Group& group : groups) {
        bytes += group.bytes;
        newest_attempt = std::max(newest_attempt, group.failures_before);
    }
    Status status;
    if (used_bytes() + records.size() * 2 * kRecordBytes > state_.options.capacity_bytes) {
        status = make_error(Code::full, "no space left for the index within the size limit");
    } else {
        status = log_.append(records);
    }
    if (status.ok() && log_.vanished()) {
        status = make_error(Code::io, "the directory " + state_.dir->path() + " was deleted");
        records_lost_ = true;
    }
    if (status.ok()) {
        std::unique_lock lock(state_.catalog.mutex());
        for (const IndexRecord& record : records) {
            state_.catalog.publish(record.key, record.parent_key,
                                   {record.segment, record.offset_units, record.units},
                                   record.value);
        }
        state_.catalog.advance(bytes, state_.options.capacity_bytes);
        exchanged_bytes_ -= std::min(exchanged_bytes_, 2 * bytes);
    } else {
        journal_failed_ = true;
        write_failed(status.error());
        // Its space goes back, also for the journal to have.
        send_group();
        seal_active();
    }
    for (const Group& group : groups) settle(group, status);
    if (!status.ok()) return;
    dirty_ = true;
    // A write that was under way before the failure proves nothing.
    if (newest_attempt == failures_ && state_.health.recover()) {
        log::info("disk_recovered", "{} takes writes again", state_.dir->path());
    }
}

void Writer::finish_jobs() {
    std::vector<std::unique_ptr<Job>> done;
    std::erase_if(active_jobs_, [&](std::unique_ptr<Job>& job) {
        if (job->waiting > 0) return false;
        done.push_back(std::move(job));
        return true;
    });
    for (std::unique_ptr<Job>& job : done) {
        StoreCounters& counters = state_.counters;
        for (size_t i = 0; i < job->puts.size(); i++) {
            if (job->results[i].ok()) {
                counters.put_bytes.fetch_add(job->puts[i].slab.size());
            } else {
                counters.puts_rejected.fetch_add(1);
            }
        }
        counters.puts.fetch_add(job->puts.size());
        counters.put_ns.fetch_add(
            static_cast<uint64_t>(state_.clock.monotonic_ns() - job->start_ns));
        counters.pending_puts.fetch_sub(1);
        counters.pending_put_bytes.fetch_sub(job->bytes);
        job->done(job->results);
        finished_jobs_.fetch_add(1);
    }
}

void Writer::append_pending() {
    if (pending_records_.empty()) return;
    Records records = std::exchange(pending_records_, {});
    if (state_.dir->read_only()) return;
    // What cannot be journalled now is made good by the next checkpoint.
    if (!log_.append(std::move(records)).ok()) records_lost_ = true;
    dirty_ = true;
}

void Writer::maybe_checkpoint() {
    if (state_.dir->read_only() || !state_.health.may_write()) return;
    const int64_t now = state_.clock.monotonic_ns();
    const uint64_t slabs = slab_count();
    state_.counters.index_bytes.store(log_.bytes());
    bool wanted = records_lost_ || log_.wants_checkpoint(slabs, state_.options.checkpoint_bytes);
    if (!wanted || now < next_checkpoint_ns_) return;
    Status status;
    if (used_bytes() > state_.options.capacity_bytes) {
        status = make_error(Code::full, "no space for a checkpoint within the size limit");
    } else {
        status = log_.checkpoint(state_.catalog);
    }
    if (status.ok()) {
        records_lost_ = false;
        state_.counters.index_bytes.store(log_.bytes());
        return;
    }
    next_checkpoint_ns_ = now + kCheckpointRetryNs;
    state_.limited_log.warn("disk_checkpoint_failed", "{}; will try again", status.error().message);
}

void Writer::maybe_sync() {
    if (!dirty_ && unsynced_.empty()) return;
    const int64_t every = state_.options.sync_interval_ns;
    const int64_t now = state_.clock.monotonic_ns();
    bool due = every >= 0 && dirty_ && now - last_sync_ns_ >= every;
    if (!due && unsynced_.size() <= kMaxUnsynced) return;
    if (Status status = sync_all(); !status.ok()) write_failed(status.error());
}

// Data first, then the journal that points to it.
Status Writer::sync_all() {
    last_sync_ns_ = state_.clock.monotonic_ns();
    std::vector<SegmentFiles::FilePtr> files = std::exchange(unsynced_, {});
    if (active_.open()) files.push_back(active_.file());
    std::vector<IoRequest> requests;
    for (const auto& file : files) requests.push_back(io_fdatasync(file->fd()));
    Status status;
    for (const auto& result : run_io(state_.io, requests)) {
        if (!result.ok()) status = result.error();
    }
    if (status.ok()) status = log_.sync();
    if (status.ok() && !state_.dir->read_only()) status = state_.dir->sync();
    if (status.ok()) dirty_ = false;
    return status;
}

uint64_t Writer::oldest_job() const {
    uint64_t oldest = UINT64_MAX;
    for (const auto& job : active_jobs_) oldest = std::min(oldest, job->number);
    for (const auto& job : queue_) oldest = std::min(oldest, job->number);
    return oldest;
}

void Writer::answer_flushes() {
    if (flushes_.empty()) return;
    const uint64_t oldest = oldest_job();
    std::vector<FlushPtr> due;
    std::erase_if(flushes_, [&](FlushPtr& flush) {
        if (oldest <= flush->up_to) return false;
        due.push_back(flush);
        return true;
    });
    if (due.empty()) return;
    Status status = sync_all();
    for (const FlushPtr& flush : due) {
        std::lock_guard lock(flush->mutex);
        flush->result = status;
        flush->ready.notify_all();
    }
}

void Writer::close() {
    seal_active();
    append_pending();
    if (state_.dir->read_only()) return;
    Status status = sync_all();
    if (!state_.dir->still_ours()) return;
    if (status.ok() && used_bytes() <= state_.options.capacity_bytes) {
        status = log_.checkpoint(state_.catalog);
    }
    if (!status.ok()) {
        log::warn("disk_close_failed", "closing {}: {}", state_.dir->path(),
                  status.error().message);
    }
}

}  // namespace quire
