#include "tier/disk/reader.h"

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "format/segment.h"

namespace quire {
namespace {

constexpr int64_t kIdleWaitNs = 1'000'000'000;
constexpr int64_t kStalledWaitNs = 1'000'000;

}  // namespace

Reader::Reader(StoreState& state)
    : state_(state),
      window_(state.io, state.options.io_depth,
              [box = mailbox_](uint64_t tag, Result<size_t> result) {
                  box->post(Event{tag, std::move(result)});
              }),
      thread_([this] { run(); }) {}

Reader::~Reader() {
    stopping_.store(true);
    mailbox_->notify();
    thread_.join();
}

void Reader::post(std::vector<TierGet> batch, TierDone done) {
    auto job = std::make_unique<Job>();
    job->gets = std::move(batch);
    job->done = std::move(done);
    job->start_ns = state_.clock.monotonic_ns();
    open_jobs_.fetch_add(1);
    mailbox_->post(std::move(job));
}

void Reader::run() {
    std::vector<Event> events;
    while (!stopping_.load() || open_jobs_.load() > 0) {
        mailbox_->wait(window_.stalled() ? kStalledWaitNs : kIdleWaitNs);
        events.clear();
        for (Message& message : mailbox_->drain()) {
            if (auto* job = std::get_if<std::unique_ptr<Job>>(&message)) {
                start(std::move(*job));
            } else {
                events.push_back(std::move(std::get<Event>(message)));
            }
        }
        // First let the device begin, then verify.
        window_.pump();
        for (const Event& event : events) {
            auto node = groups_.extract(event.tag);
            finish_group(std::move(node.mapped()), event.result);
            window_.pump();
        }
    }
}

void Reader::start(std::unique_ptr<Job> job) {
    Job& ref = *job;
    jobs_.emplace(&ref, std::move(job));
    ref.results.assign(ref.gets.size(), Status());
    ref.groups_left = 1;  // this function's own share
    make_groups(ref, look_up(ref));
    finish_job(&ref);
}

std::vector<Reader::Item> Reader::look_up(Job& job) {
    std::vector<Item> items;
    items.reserve(job.gets.size());
    std::shared_lock lock(state_.catalog.mutex());
    for (uint32_t i = 0; i < job.gets.size(); i++) {
        const TierGet& get = job.gets[i];
        Slot slot = state_.catalog.find(get.key);
        if (slot == kNoSlot) {
            job.results[i] = make_error(Code::miss, "not on disk");
            continue;
        }
        DiskPlace place = state_.catalog.at(slot).place();
        if (get.into.size() != place.units * kDiskUnitBytes ||
            reinterpret_cast<uintptr_t>(get.into.data()) % kDiskUnitBytes != 0) {
            job.results[i] = make_error(
                Code::invalid,
                "buffer of " + std::to_string(get.into.size()) + " bytes for a slab of " +
                    std::to_string(place.units * kDiskUnitBytes) + ", or not aligned to 4 KiB");
            continue;
        }
        state_.catalog.touch(slot);
        items.push_back({i, place});
    }
    return items;
}

void Reader::make_groups(Job& job, std::vector<Item> items) {
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
        return std::pair(a.place.segment, a.place.offset_units) <
               std::pair(b.place.segment, b.place.offset_units);
    });
    const uint64_t max_units = std::max<uint64_t>(1, state_.options.io_bytes / kDiskUnitBytes);
    std::vector<Item> run;
    uint64_t run_units = 0;
    for (const Item& item : items) {
        const DiskPlace* last = run.empty() ? nullptr : &run.back().place;
        bool follows = last != nullptr && last->segment == item.place.segment &&
                       last->offset_units + last->units == item.place.offset_units;
        if (!run.empty() &&
            (!follows || run_units + item.place.units > max_units || run.size() >= kMaxIoParts)) {
            submit(job, std::exchange(run, {}));
            run_units = 0;
        }
        run.push_back(item);
        run_units += item.place.units;
    }
    if (!run.empty()) submit(job, std::move(run));
}

void Reader::submit(Job& job, std::vector<Item> items) {
    auto file = state_.files.open(items.front().place.segment);
    if (!file.ok()) {
        segment_missing(job, items, file.error());
        return;
    }
    const uint64_t tag = next_tag_++;
    Group& group = groups_[tag];
    group.job = &job;
    group.file = *file;
    group.items = std::move(items);
    for (const Item& item : group.items) {
        std::span<std::byte> into = job.gets[item.index].into;
        group.parts.push_back({into.data(), into.size()});
    }
    job.groups_left++;
    window_.push(io_readv(group.file->fd(),
                          uint64_t{group.items.front().place.offset_units} * kDiskUnitBytes,
                          group.parts, tag));
}

// The segment was cleaned between lookup and open, its slabs perhaps moved; or it is really gone.
void Reader::segment_missing(Job& job, const std::vector<Item>& items, const Error& error) {
    std::vector<Item> moved;
    bool still_there = false;
    {
        std::shared_lock lock(state_.catalog.mutex());
        for (Item item : items) {
            Slot slot = state_.catalog.find(job.gets[item.index].key);
            bool live = slot != kNoSlot;
            if (live && state_.catalog.at(slot).place() == item.place) {
                still_there = true;
            } else if (live && !item.retried &&
                       state_.catalog.at(slot).place().units == item.place.units) {
                moved.push_back({item.index, state_.catalog.at(slot).place(), true});
                continue;
            }
            job.results[item.index] =
                still_there ? Status(error) : make_error(Code::miss, "evicted meanwhile");
        }
    }
    if (still_there) {
        state_.counters.io_errors.fetch_add(1);
        state_.limited_log.warn("disk_segment_missing", "{}; its blocks are misses", error.message);
        if (error.detail == ENOENT) state_.forget_segment(items.front().place.segment);
    }
    if (!moved.empty()) make_groups(job, std::move(moved));
}

void Reader::finish_group(Group group, const Result<size_t>& result) {
    Job& job = *group.job;
    if (!result.ok()) {
        state_.counters.io_errors.fetch_add(1);
        state_.limited_log.warn("disk_read_failed", "{}/{}: {}", state_.dir->path(),
                                segment_file_name(group.file->id()), result.error().message);
    }
    if (!result.ok() && group.items.size() > 1) {
        split(std::move(group));
        finish_job(&job);
        return;
    }
    uint64_t left = result.ok() ? *result : 0;
    for (const Item& item : group.items) {
        const TierGet& get = job.gets[item.index];
        size_t got = std::min<uint64_t>(left, get.into.size());
        left -= got;
        job.results[item.index] = result.ok() ? check(get, item, got) : Status(result.error());
        if (!job.results[item.index].ok()) state_.forget(get.key, item.place);
    }
    finish_job(&job);
}

// One bad sector must not cost its neighbours: each slab of a failed group is read alone.
void Reader::split(Group group) {
    for (const Item& item : group.items) submit(*group.job, {item});
}

Status Reader::check(const TierGet& get, const Item& item, size_t bytes_read) {
    Status status;
    if (bytes_read < get.into.size()) {
        status = make_error(Code::corrupt, "read only " + std::to_string(bytes_read) + " of " +
                                               std::to_string(get.into.size()) + " bytes");
    } else {
        status = verify_slab(get.into);
        if (status.ok() && slab_header(std::span<const std::byte>(get.into)).key != get.key) {
            status = make_error(Code::corrupt, "a sound slab, but of another key");
        }
    }
    if (status.ok()) return status;
    state_.counters.corrupt_blocks.fetch_add(1);
    state_.limited_log.warn("disk_slab_damaged", "{}/{} at byte {}: {}; a miss", state_.dir->path(),
                            segment_file_name(item.place.segment),
                            item.place.offset_units * kDiskUnitBytes, status.error().message);
    return make_error(Code::corrupt, status.error().message, status.error().detail);
}

void Reader::finish_job(Job* job) {
    if (--job->groups_left > 0) return;
    auto node = jobs_.extract(job);
    uint64_t hits = 0, bytes = 0;
    for (size_t i = 0; i < job->gets.size(); i++) {
        if (!job->results[i].ok()) continue;
        hits++;
        bytes += job->gets[i].into.size();
    }
    StoreCounters& counters = state_.counters;
    counters.gets.fetch_add(job->gets.size());
    counters.get_hits.fetch_add(hits);
    counters.get_bytes.fetch_add(bytes);
    counters.get_ns.fetch_add(static_cast<uint64_t>(state_.clock.monotonic_ns() - job->start_ns));
    counters.pending_gets.fetch_sub(1);
    job->done(job->results);
    open_jobs_.fetch_sub(1);
}

}  // namespace quire
