#include "tier/packed/packer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace quire {
namespace {

constexpr int kBackgroundNice = 10;
constexpr uint64_t kParcelBytes = uint64_t{4} << 20;
// A busy store is asked again after some of its work completed, this often at most.
constexpr int kBusyRetriesMax = 200;
constexpr auto kBusyWait = std::chrono::milliseconds(50);
constexpr auto kRestMax = std::chrono::seconds(1);

uint64_t thread_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

struct Packer::Job {
    std::vector<TierPut> puts;
    std::vector<Status> results;
    TierDone done;
    std::atomic<size_t> open{1};  // parcels under way, plus one until all were sent
};

Packer::Packer(TierStore& inner, const PackedOptions& options, PackCounters& counters)
    : inner_(inner), options_(options), counters_(counters), thread_([this] { run(); }) {}

Packer::~Packer() {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_jobs_ == 0; });
}

void Packer::post(std::vector<TierPut> batch, TierDone done) {
    auto job = std::make_shared<Job>();
    job->puts = std::move(batch);
    job->results.resize(job->puts.size());
    job->done = std::move(done);
    {
        std::lock_guard lock(mutex_);
        ++open_jobs_;
        queue_.push_back(std::move(job));
    }
    changed_.notify_all();
}

Status Packer::flush(int64_t timeout_ns) {
    std::unique_lock lock(mutex_);
    ++flushing_;
    changed_.notify_all();
    const bool idle = changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                                        [this] { return open_jobs_ == 0; });
    --flushing_;
    if (!idle) return make_error(Code::timeout, "slabs are still being packed");
    return {};
}

void Packer::hurry(bool on) {
    {
        std::lock_guard lock(mutex_);
        hurried_ = on;
    }
    changed_.notify_all();
}

void Packer::run() {
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kBackgroundNice);
    for (;;) {
        std::shared_ptr<Job> job;
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
            if (queue_.empty()) return;
            job = std::move(queue_.front());
            queue_.pop_front();
        }
        work(job);
        finish(job);
    }
}

void Packer::work(const std::shared_ptr<Job>& job) {
    Parcel parcel;
    for (size_t i = 0; i < job->puts.size(); ++i) {
        const uint64_t begin_ns = thread_ns();
        if (const Status ready = pack_one(job->puts[i], i, &parcel); !ready.ok())
            job->results[i] = ready;
        const uint64_t worked_ns = thread_ns() - begin_ns;
        counters_.pack_ns += worked_ns;
        if (parcel.bytes >= kParcelBytes) send(job, std::exchange(parcel, {}));
        rest(worked_ns);
    }
    send(job, std::move(parcel));
}

Status Packer::pack_one(const TierPut& put, size_t place, Parcel* parcel) {
    uint8_t there = 0;
    inner_.contains({&put.key, 1}, {&there, 1});
    TierPut stored = put;
    SlabBuffer memory;
    // What is not sound goes as it is, for the store to refuse: packing would seal it.
    const bool sound = verify_slab(put.slab).ok() && slab_header(put.slab).key == put.key;
    const bool is_packed = sound && slab_header(put.slab).packed != PackedPayload{};
    const bool as_it_came = is_packed && options_.packing && packed_by(*options_.packing, put.slab);
    if (is_packed && !as_it_came) {
        auto opened = unpack_from_above(put.slab);
        if (!opened.ok()) return opened.error();
        memory = std::move(opened).value();
        stored.slab = memory.bytes();
    }
    if (sound && !as_it_came && options_.packing) {
        auto packed = as_stored(stored.slab, !there && !inner_.stats().degraded);
        if (!packed.ok()) return packed.error();
        if (*packed) {
            memory = std::move(packed).value();
            stored.slab = memory.bytes();
        }
    }
    if (memory) {
        parcel->bytes += memory.bytes().size();
        parcel->memory.push_back(std::move(memory));
    }
    parcel->puts.push_back(stored);
    parcel->places.push_back(place);
    return {};
}

// The slab of a tier above as it was before that one packed or marked it.
Result<SlabBuffer> Packer::unpack_from_above(std::span<const std::byte> slab) {
    if (!options_.above)
        return make_error(Code::unsupported, "the slab comes packed, which no tier above does");
    SlabBuffer opened(unpacked_bytes(slab));
    if (!opened) return make_error(Code::full, "no memory to unpack a slab");
    if (opened.bytes().size() < slab.size())
        return make_error(Code::corrupt, "a packed slab that is smaller when unpacked");
    std::ranges::copy(slab, opened.bytes().begin());
    QUIRE_TRY(unpack_slab(*options_.above, opened.bytes(), &scratch_));
    return opened;
}

// The sound slab packed, or marked; empty where it stays as it is.
Result<SlabBuffer> Packer::as_stored(std::span<const std::byte> slab, bool worth_packing) {
    const SlabPacking& packing = *options_.packing;
    const uint16_t group = slab_header(slab).group;
    if (worth_packing && (!packing.lossless() || worth_.tries(group))) {
        SlabBuffer packed = pack_slab(packing, slab, &scratch_);
        worth_.saw(group, static_cast<bool>(packed));
        if (packed) {
            ++counters_.packed_blocks;
            counters_.from_bytes += slab.size();
            counters_.to_bytes += packed.bytes().size();
            return packed;
        }
        ++counters_.failures;
    }
    if (packing.stands_on_exact(slab_header(slab))) return SlabBuffer();
    // Whoever reads it without this packing must not take it for what he would have computed; also
    // where another one is there now, which may be gone before this arrives.
    SlabBuffer marked = mark_slab(packing, slab);
    if (!marked) return make_error(Code::full, "no memory to mark a slab");
    return marked;
}

void Packer::send(const std::shared_ptr<Job>& job, Parcel parcel) {
    if (parcel.puts.empty()) return;
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] {
            return held_bytes_ == 0 || held_bytes_ + parcel.bytes <= options_.packed_bytes_max;
        });
        held_bytes_ += parcel.bytes;
    }
    const auto kept = std::make_shared<Parcel>(std::move(parcel));
    const auto stored = [this, job, kept](std::span<const Status> results) {
        for (size_t i = 0; i < results.size(); ++i) job->results[kept->places[i]] = results[i];
        {
            std::lock_guard lock(mutex_);
            held_bytes_ -= kept->bytes;
        }
        changed_.notify_all();
        finish(job);
    };
    job->open.fetch_add(1);
    Status accepted;
    for (int attempt = 0; attempt < kBusyRetriesMax; ++attempt) {
        accepted = inner_.put(kept->puts, stored);
        if (accepted.code() != Code::busy) break;
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, kBusyWait);
    }
    if (!accepted.ok()) stored(std::vector<Status>(kept->puts.size(), accepted));
}

void Packer::finish(const std::shared_ptr<Job>& job) {
    if (job->open.fetch_sub(1) != 1) return;
    counters_.pending_puts -= 1;
    job->done(job->results);
    std::lock_guard lock(mutex_);
    --open_jobs_;
    changed_.notify_all();
}

void Packer::rest(uint64_t worked_ns) {
    const double rest_ns = static_cast<double>(worked_ns) * (1 / options_.pack_share - 1);
    const auto pause = std::min<std::chrono::nanoseconds>(
        std::chrono::nanoseconds(static_cast<int64_t>(rest_ns)), kRestMax);
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, pause, [this] { return stopping_ || hurried_ || flushing_ > 0; });
}

}  // namespace quire
