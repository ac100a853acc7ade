#include "tier/disk/reader.h"

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "format/segment.h"

namespace quire {
namespace {

constexpr int64_t kIdleWaitNs = 1'000'000'000;
constexpr int64_t kStalledWaitNs = 1'000'000;
// A short read has no time to verify behind it what came before, so its requests are small: of a
// 22 MB load they gave .83 of a plain read, requests of 2 MiB .74.
constexpr uint64_t kGroupBytesMin = 512 << 10;

// Of all readers together at most three quarters of what the engine takes.
size_t piece_depth(const StoreState& state) {
    const size_t share = state.io.queue_depth() * 3 / 4 / state.options.read_threads;
    return std::max<size_t>(state.options.io_depth, share);
}

}  // namespace

Reader::Reader(StoreState& state)
    : state_(state),
      window_(state.io, state.options.io_depth, posted()),
      pieces_(state.io, piece_depth(state), posted()),
      thread_([this] { run(); }) {}

IoWindow::Posted Reader::posted() const {
    return [box = mailbox_](uint64_t tag, Result<size_t> result) {
        box->post(Event{tag, std::move(result)});
    };
}

Reader::~Reader() {
    stopping_.store(true);
    mailbox_->notify();
    thread_.join();
}

void Reader::post(std::vector<TierGet> batch, TierDone done, std::shared_ptr<Landing> landing) {
    auto job = std::make_unique<Job>();
    job->gets = std::move(batch);
    job->done = std::move(done);
    job->landing = std::move(landing);
    if (job->landing) job->progress.resize(job->gets.size());
    job->start_ns = state_.clock.monotonic_ns();
    open_jobs_.fetch_add(1);
    mailbox_->post(std::move(job));
}

void Reader::run() {
    std::vector<Event> events;
    while (!stopping_.load() || open_jobs_.load() > 0) {
        mailbox_->wait(window_.stalled() || pieces_.stalled() ? kStalledWaitNs : kIdleWaitNs);
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
        pieces_.pump();
        for (const Event& event : events) {
            auto node = groups_.extract(event.tag);
            finish_group(std::move(node.mapped()), event.result);
            window_.pump();
            pieces_.pump();
        }
    }
}

void Reader::start(std::unique_ptr<Job> job) {
    Job& ref = *job;
    jobs_.emplace(&ref, std::move(job));
    ref.results.assign(ref.gets.size(), Status());
    ref.groups_left = 1;  // this function's own share
    read(ref, look_up(ref));
    finish_job(&ref);
}

void Reader::read(Job& job, std::vector<Item> items) {
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
        return std::pair(a.place.segment, a.place.offset_units) <
               std::pair(b.place.segment, b.place.offset_units);
    });
    if (job.landing && job.landing->pieces.size() > 1)
        make_pieces(job, items);
    else
        make_groups(job, items);
}

std::vector<Reader::Item> Reader::look_up(Job& job) {
    std::vector<Item> items;
    items.reserve(job.gets.size());
    std::shared_lock lock(state_.catalog.mutex());
    for (uint32_t i = 0; i < job.gets.size(); i++) {
        TierGet& get = job.gets[i];
        Slot slot = state_.catalog.find(get.key);
        if (slot == kNoSlot) {
            refuse(job, i, make_error(Code::miss, "not on disk"));
            continue;
        }
        DiskPlace place = state_.catalog.at(slot).place();
        const size_t stored = place.units * kDiskUnitBytes;
        if (get.or_less && !job.landing && get.into.size() > stored)
            get.into = get.into.first(stored);
        const bool shaped = !job.landing || get.into.size() == job.landing->slab_bytes();
        if (get.into.size() != stored || !shaped ||
            reinterpret_cast<uintptr_t>(get.into.data()) % kDiskUnitBytes != 0) {
            refuse(job, i,
                   make_error(Code::invalid, "buffer of " + std::to_string(get.into.size()) +
                                                 " bytes for a slab of " + std::to_string(stored) +
                                                 ", or not aligned to 4 KiB"));
            continue;
        }
        state_.catalog.touch(slot);
        items.push_back({i, place});
    }
    return items;
}

void Reader::make_groups(Job& job, const std::vector<Item>& items) {
    uint64_t bytes = 0;
    for (const Item& item : items) bytes += item.place.units * kDiskUnitBytes;
    const uint64_t even = std::max(kGroupBytesMin, bytes / state_.options.io_depth);
    const uint64_t max_units =
        std::max<uint64_t>(1, std::min(even, state_.options.io_bytes) / kDiskUnitBytes);
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

void Reader::make_pieces(Job& job, const std::vector<Item>& items) {
    std::vector<std::pair<Item, SegmentFiles::FilePtr>> open;
    for (const Item& item : items) {
        auto file = state_.files.open(item.place.segment);
        if (file.ok())
            open.emplace_back(item, *file);
        else
            segment_missing(job, {item}, file.error());
    }
    for (uint32_t piece = 0; piece < job.landing->pieces.size(); piece++)
        for (const auto& [item, file] : open) submit(job, file, {item}, piece);
}

void Reader::submit(Job& job, std::vector<Item> items) {
    auto file = state_.files.open(items.front().place.segment);
    if (file.ok())
        submit(job, *file, std::move(items), std::nullopt);
    else
        segment_missing(job, items, file.error());
}

void Reader::submit(Job& job, SegmentFiles::FilePtr file, std::vector<Item> items,
                    std::optional<uint32_t> piece) {
    const uint64_t tag = next_tag_++;
    Group& group = groups_[tag];
    group.job = &job;
    group.file = std::move(file);
    group.items = std::move(items);
    group.piece = piece;
    uint64_t from = uint64_t{group.items.front().place.offset_units} * kDiskUnitBytes;
    for (const Item& item : group.items) {
        std::span<std::byte> into = job.gets[item.index].into;
        if (piece) {
            const SlabPiece& part = job.landing->pieces[*piece];
            into = into.subspan(part.offset, part.bytes);
            from += part.offset;
        }
        group.parts.push_back({into.data(), into.size()});
    }
    job.groups_left++;
    (piece ? pieces_ : window_).push(io_readv(group.file->fd(), from, group.parts, tag));
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
            refuse(job, item.index,
                   still_there ? Status(error) : make_error(Code::miss, "evicted meanwhile"));
        }
    }
    if (still_there) {
        state_.counters.io_errors.fetch_add(1);
        state_.limited_log.warn("disk_segment_missing", "{}; its blocks are misses", error.message);
        if (error.detail == ENOENT) state_.forget_segment(items.front().place.segment);
    }
    if (!moved.empty()) read(job, std::move(moved));
}

void Reader::finish_group(Group group, const Result<size_t>& result) {
    Job& job = *group.job;
    if (!result.ok()) {
        state_.counters.io_errors.fetch_add(1);
        state_.limited_log.warn("disk_read_failed", "{}/{}: {}", state_.dir->path(),
                                segment_file_name(group.file->id()), result.error().message);
    }
    if (group.piece) {
        finish_piece(job, group, result);
        finish_job(&job);
        return;
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
        Status status = result.ok() ? check(job, item, got) : Status(result.error());
        if (status.ok()) {
            if (job.landing) job.landing->count.landed(0);  // slabs of one piece only
            continue;
        }
        state_.forget(get.key, item.place);
        refuse(job, item.index, std::move(status));
    }
    finish_job(&job);
}

void Reader::finish_piece(Job& job, const Group& group, const Result<size_t>& result) {
    const Item& item = group.items.front();
    if (!job.results[item.index].ok()) return;  // another piece failed before
    const SlabPiece& piece = job.landing->pieces[*group.piece];
    Status status;
    if (!result.ok())
        status = result.error();
    else if (*result < piece.bytes)
        status = damaged(
            item, make_error(Code::corrupt, "read only " + std::to_string(*result) + " of " +
                                                std::to_string(piece.bytes) + " bytes at byte " +
                                                std::to_string(piece.offset) + " of the slab"));
    else
        status = check_pieces(job, item, *group.piece);
    if (status.ok()) return;
    state_.forget(job.gets[item.index].key, item.place);
    refuse(job, item.index, std::move(status));
}

// Pieces come in any order; none can be judged before the header, which is in the first.
Status Reader::check_pieces(Job& job, const Item& item, uint32_t piece) {
    Progress& progress = job.progress[item.index];
    const std::span<const std::byte> slab = job.gets[item.index].into;
    progress.arrived |= 1u << piece;
    uint32_t fresh = 1u << piece;
    if (piece == 0) {
        Status header = check_header(job, item);
        if (!header.ok()) return damaged(item, header);
        progress.header_ok = true;
        fresh = progress.arrived;
    }
    if (!progress.header_ok) return {};
    for (uint32_t p = 0; p < job.landing->pieces.size(); p++) {
        if (!(fresh >> p & 1)) continue;
        const SlabPiece& part = job.landing->pieces[p];
        Status layers = verify_slab_layers(slab, part.first_layer, part.end_layer);
        if (!layers.ok()) return damaged(item, layers);
        job.landing->count.landed(p);
    }
    return {};
}

Status Reader::check_header(const Job& job, const Item& item) const {
    QUIRE_TRY(verify_slab_header(job.gets[item.index].into));
    return check_asked(job, item);
}

// REQUIRES: the header is sound.
Status Reader::check_asked(const Job& job, const Item& item) const {
    const TierGet& get = job.gets[item.index];
    const SlabHeader& header = slab_header(std::span<const std::byte>(get.into));
    if (header.key != get.key) return make_error(Code::corrupt, "a sound slab, but of another key");
    if (job.landing && header.layer_count != job.landing->pieces.back().end_layer)
        return make_error(Code::corrupt, "a sound slab, but of another shape");
    return {};
}

void Reader::refuse(Job& job, uint32_t index, Status why) {
    job.results[index] = std::move(why);
    if (job.landing) job.landing->count.failed();
}

// One bad sector must not cost its neighbours: each slab of a failed group is read alone.
void Reader::split(Group group) {
    for (const Item& item : group.items) submit(*group.job, {item});
}

Status Reader::check(const Job& job, const Item& item, size_t bytes_read) {
    const TierGet& get = job.gets[item.index];
    Status status;
    if (bytes_read < get.into.size()) {
        status = make_error(Code::corrupt, "read only " + std::to_string(bytes_read) + " of " +
                                               std::to_string(get.into.size()) + " bytes");
    } else {
        status = verify_slab(get.into);
        if (status.ok()) status = check_asked(job, item);
    }
    return status.ok() ? status : damaged(item, status);
}

// Counts and logs damage; what callers are told.
Status Reader::damaged(const Item& item, const Status& why) {
    state_.counters.corrupt_blocks.fetch_add(1);
    state_.limited_log.warn("disk_slab_damaged", "{}/{} at byte {}: {}; a miss", state_.dir->path(),
                            segment_file_name(item.place.segment),
                            item.place.offset_units * kDiskUnitBytes, why.error().message);
    return make_error(Code::corrupt, why.error().message, why.error().detail);
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
