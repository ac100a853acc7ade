// DiskStore: the verbs of a TierStore over one reader pool and one writer; and opening, which
// decides what of an existing directory can be served.
#include <algorithm>
#include <atomic>
#include <mutex>

#include <fcntl.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "format/segment.h"
#include "tier/disk/disk.h"
#include "tier/disk/origins.h"
#include "tier/disk/reader.h"
#include "tier/disk/recovery.h"
#include "tier/disk/store_state.h"
#include "tier/disk/writer.h"

namespace quire {
namespace {

constexpr uint64_t kMinCapacityBytes = 4 << 20;
constexpr uint64_t kMinSegmentBytes = 64 << 10;
constexpr uint64_t kSegmentsAtLeast = 16;
constexpr uint64_t kSplitBytes = 1 << 20;  // a get from here on is shared by all readers

// Takes one of a bounded number of places, or says no.
bool take_place(std::atomic<uint64_t>& counter, uint64_t amount, uint64_t limit) {
    uint64_t now = counter.load();
    do {
        // Something larger than the limit alone may still go when nothing else waits.
        if (now > 0 && now + amount > limit) return false;
    } while (!counter.compare_exchange_weak(now, now + amount));
    return true;
}

// The results of one get that several readers share; the last one calls back.
class JoinedGet {
 public:
    JoinedGet(size_t count, size_t parts, TierDone done)
        : results_(count), left_(parts), done_(std::move(done)) {}

    void finish(size_t begin, std::span<const Status> results) {
        // Parts are disjoint; the counter orders them before the last one's callback.
        std::copy(results.begin(), results.end(), results_.begin() + static_cast<ptrdiff_t>(begin));
        if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) done_(results_);
    }

 private:
    std::vector<Status> results_;
    std::atomic<size_t> left_;
    TierDone done_;
};

class DiskStore final : public TierStore {
 public:
    DiskStore(std::unique_ptr<StoreState> state, const Recovered& recovered,
              std::vector<SlabOrigin> origins)
        : state_(std::move(state)),
          origins_(std::move(origins)),
          writer_(std::make_unique<Writer>(*state_, recovered.log, recovered.next_segment)) {
        state_->journal_later = [this](std::vector<IndexRecord> records) {
            writer_->journal_later(std::move(records));
        };
        for (uint32_t i = 0; i < state_->options.read_threads; i++) {
            readers_.push_back(std::make_unique<Reader>(*state_));
        }
    }

    // Readers first: they report damage to the writer.
    ~DiskStore() override {
        readers_.clear();
        writer_.reset();
    }

    TierInfo info() const override {
        TierInfo info;
        info.tier = Tier::g3;
        info.name = "disk";
        info.caps.durable = true;
        info.caps.lists = true;
        info.capacity_bytes = state_->options.capacity_bytes;
        info.at_once_bytes = state_->options.at_once_bytes;
        return info;
    }

    void contains(std::span<const BlockKey> keys, std::span<uint8_t> present) const override {
        QUIRE_CHECK(keys.size() == present.size(), "one answer per key");
        std::shared_lock lock(state_->catalog.mutex());
        for (size_t i = 0; i < keys.size(); i++) {
            present[i] = state_->catalog.find(keys[i]) != kNoSlot;
        }
    }

    Status get(std::vector<TierGet> batch, TierDone done, TierLanding landing) override {
        uint64_t bytes = 0;
        for (const TierGet& get : batch) bytes += get.into.size();
        const size_t parts = bytes < kSplitBytes ? 1 : std::min(readers_.size(), batch.size());
        std::atomic<uint64_t>& pending = state_->counters.pending_gets;
        if (!take_place(pending, parts, state_->options.max_pending_batches)) {
            return make_error(Code::busy, "the disk tier has too many reads waiting");
        }
        std::shared_ptr<Reader::Landing> landings;
        if (landing.layers > 0 && bytes > state_->options.at_once_bytes)
            landings = std::make_shared<Reader::Landing>(std::move(landing), batch.size());
        if (parts <= 1) {
            next_reader().post(std::move(batch), std::move(done), std::move(landings));
            return {};
        }
        // A long prompt: all readers verify at once. Neighbours mostly stay together.
        auto joined = std::make_shared<JoinedGet>(batch.size(), parts, std::move(done));
        for (size_t part = 0; part < parts; part++) {
            const size_t begin = batch.size() * part / parts;
            const size_t end = batch.size() * (part + 1) / parts;
            std::vector<TierGet> some(batch.begin() + static_cast<ptrdiff_t>(begin),
                                      batch.begin() + static_cast<ptrdiff_t>(end));
            next_reader().post(
                std::move(some),
                [joined, begin](std::span<const Status> results) {
                    joined->finish(begin, results);
                },
                landings);
        }
        return {};
    }

    Status put(std::vector<TierPut> batch, TierDone done) override {
        StoreCounters& counters = state_->counters;
        uint64_t bytes = 0;
        for (const TierPut& put : batch) bytes += put.slab.size();
        if (!take_place(counters.pending_puts, 1, state_->options.max_pending_batches)) {
            return make_error(Code::busy, "the disk tier has too many writes waiting");
        }
        if (!take_place(counters.pending_put_bytes, bytes, state_->options.max_pending_put_bytes)) {
            counters.pending_puts.fetch_sub(1);
            return make_error(Code::busy, "the disk tier has too many bytes waiting");
        }
        writer_->post(std::move(batch), std::move(done));
        return {};
    }

    void erase(std::span<const BlockKey> keys) override {
        for (const BlockKey& key : keys) {
            DiskPlace place;
            {
                std::shared_lock lock(state_->catalog.mutex());
                Slot slot = state_->catalog.find(key);
                if (slot == kNoSlot) continue;
                place = state_->catalog.at(slot).place();
            }
            state_->forget(key, place);
        }
    }

    Result<std::vector<TierEntry>> list() const override {
        std::shared_lock lock(state_->catalog.mutex());
        const SlotMap& map = state_->catalog.map();
        std::vector<TierEntry> entries;
        entries.reserve(map.live_count());
        map.for_each_live([&](Slot slot) {
            const SlotEntry& entry = map.at(slot);
            entries.push_back({entry.key, map.parent_key(slot),
                               static_cast<uint32_t>(entry.units * kDiskUnitBytes)});
        });
        return entries;
    }

    TierStats stats() const override {
        const StoreCounters& c = state_->counters;
        TierStats stats;
        {
            std::shared_lock lock(state_->catalog.mutex());
            stats.blocks = state_->catalog.map().live_count();
        }
        stats.used_bytes = state_->files.bytes() + c.index_bytes.load();
        stats.capacity_bytes = state_->options.capacity_bytes;
        stats.gets = c.gets, stats.get_hits = c.get_hits;
        stats.get_bytes = c.get_bytes, stats.get_ns = c.get_ns;
        stats.puts = c.puts, stats.puts_rejected = c.puts_rejected;
        stats.put_bytes = c.put_bytes, stats.put_ns = c.put_ns;
        stats.evicted_blocks = c.evicted_blocks, stats.corrupt_blocks = c.corrupt_blocks;
        stats.io_errors = c.io_errors;
        stats.pending = c.pending_gets + c.pending_puts;
        stats.degraded = state_->health.degraded();
        stats.degraded_why = state_->health.why();
        return stats;
    }

    std::vector<SlabOrigin> origins() const override { return origins_; }

    Status flush(int64_t timeout_ns) override { return writer_->flush(timeout_ns); }

 private:
    Reader& next_reader() {
        return *readers_[next_reader_.fetch_add(1, std::memory_order_relaxed) % readers_.size()];
    }

    std::unique_ptr<StoreState> state_;
    const std::vector<SlabOrigin> origins_;
    std::unique_ptr<Writer> writer_;
    std::vector<std::unique_ptr<Reader>> readers_;
    std::atomic<size_t> next_reader_{0};
};

Result<DiskOptions> checked(DiskOptions options) {
    if (options.io == nullptr || options.clock == nullptr) {
        return make_error(Code::invalid, "a disk store needs an I/O engine and a clock");
    }
    if (options.dir.empty()) return make_error(Code::invalid, "a disk store needs a directory");
    if (options.capacity_bytes < kMinCapacityBytes) {
        return make_error(Code::invalid, "disk capacity of " +
                                             std::to_string(options.capacity_bytes) +
                                             " bytes is too small; give at least 4 MiB");
    }
    uint64_t segment = std::min(options.segment_bytes, options.capacity_bytes / kSegmentsAtLeast);
    segment = std::max(segment, kMinSegmentBytes);
    options.segment_bytes = segment / kDiskUnitBytes * kDiskUnitBytes;
    options.io_depth = std::clamp<uint32_t>(options.io_depth, 1, 1024);
    options.io_depth =
        std::min<uint32_t>(options.io_depth, static_cast<uint32_t>(options.io->queue_depth()));
    options.read_threads = std::clamp<uint32_t>(options.read_threads, 1, 64);
    options.max_pending_batches = std::max<uint32_t>(options.max_pending_batches, 1);
    return options;
}

void log_recovery(const std::string& path, const Recovered& found, size_t slabs) {
    for (const std::string& note : found.notes) {
        log::warn("disk_index_damaged", "{}/{}", path, note);
    }
    for (const Recovered::Tail& tail : found.torn) {
        log::warn("disk_journal_torn", "{}/{}: no sound record in its last {} bytes; they are cut",
                  path, tail.file, tail.torn_bytes);
    }
    if (found.corrupt_records > 0) {
        log::warn("disk_index_records", "{}: skipped {} damaged index records", path,
                  found.corrupt_records);
    }
    if (found.stale_records > 0) {
        log::warn("disk_slabs_gone", "{}: {} slabs are lost with segments that were cut or deleted",
                  path, found.stale_records);
    }
    log::info("disk_opened", "{}: {} slabs found by {} index records", path, slabs, found.records);
}

// Index files take no more space than what they say: nobody evicts blocks for the rest.
void tidy_index(const DiskDir& dir, Recovered& found) {
    auto& files = found.log.old_files;
    const auto cut = [&](const std::string& name, uint64_t bytes) {
        auto known = files.find(name);
        if (known == files.end() || known->second <= bytes) return;
        auto fd = dir.open_file(name, O_RDWR);
        if (fd.ok() && ::ftruncate(fd->get(), static_cast<off_t>(bytes)) == 0)
            known->second = bytes;
        else
            log::warn("disk_index_uncut", "{}/{} cannot be cut", dir.path(), name);
    };
    for (const Recovered::Tail& tail : found.torn) cut(tail.file, tail.sound_bytes);
    // Their bad header stays until the next checkpoint: it says that the index is not whole.
    for (const std::string& name : found.unusable) cut(name, sizeof(IndexFileHeader));
    for (const std::string& name : found.superseded) {
        if (dir.remove(name).ok()) files.erase(name);
    }
}

// Brings the directory in line with what was recovered.
void tidy(const DiskDir& dir, StoreState& state, Recovered& found) {
    tidy_index(dir, found);
    for (const std::string& name : found.litter) (void)dir.remove(name);
    for (uint32_t id : found.orphans) {
        {
            std::unique_lock lock(state.catalog.mutex());
            state.catalog.drop_segment(id);
        }
        (void)state.files.remove(id);
    }
    // A crash leaves the last segment at its full reserved size: give the unused part back.
    for (auto& [id, segment] : state.catalog.segments()) {
        const uint64_t used = uint64_t{segment.end_units} * kDiskUnitBytes;
        if (segment.file_bytes <= used) continue;
        auto fd = dir.open_file(segment_file_name(id), O_RDWR);
        if (fd.ok() && ::ftruncate(fd->get(), static_cast<off_t>(used)) == 0) {
            state.files.shrunk(id, used);
            std::unique_lock lock(state.catalog.mutex());
            state.catalog.seal_segment(id, used);
        }
    }
}

}  // namespace

Result<std::unique_ptr<TierStore>> open_disk_store(const DiskOptions& asked) {
    auto options = checked(asked);
    if (!options.ok()) return options.error();
    // Before anything is created.
    if (uint64_t device = device_bytes(asked.dir);
        device > 0 && device < asked.capacity_bytes && !asked.allow_oversize) {
        return make_error(Code::invalid,
                          "disk capacity of " + std::to_string(asked.capacity_bytes) +
                              " bytes is more than the " + std::to_string(device) +
                              " bytes of the file system of " + asked.dir + "; give a smaller one");
    }
    auto dir = DiskDir::open(asked.dir, asked.read_only ? DirUse::read : DirUse::write);
    if (!dir.ok()) return dir.error();
    auto state = std::make_unique<StoreState>(*options, std::move(*dir));
    auto found = recover_index(*state->dir, state->catalog, Scan::if_lost);
    if (!found.ok()) return found.error();
    size_t slabs = 0;
    for (const auto& [id, segment] : state->catalog.segments()) {
        state->files.adopt(id, segment.file_bytes);
    }
    slabs = state->catalog.map().live_count();
    log_recovery(asked.dir, *found, slabs);
    if (asked.read_only || state->dir->read_only()) {
        state->health.fail_for_good("the directory " + asked.dir + " is read-only");
        log::warn("disk_read_only", "{} is read-only: blocks are served, none are stored",
                  asked.dir);
    } else {
        tidy(*state->dir, *state, *found);
    }
    uint64_t index_bytes = 0;
    for (const auto& [name, bytes] : found->log.old_files) index_bytes += bytes;
    state->counters.index_bytes.store(index_bytes);
    std::vector<SlabOrigin> origins = sample_origins(*state->dir, state->catalog);
    return std::unique_ptr<TierStore>(new DiskStore(std::move(state), *found, std::move(origins)));
}

}  // namespace quire
