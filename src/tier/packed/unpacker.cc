#include "tier/packed/unpacker.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

#include "base/check.h"
#include "tier/packed/packed_slab.h"

namespace quire {
namespace {

constexpr int kReadsAtOnce = 3;  // of one get

std::shared_ptr<ThreadPool> threads_of(const PackedOptions& options) {
    if (options.unpackers) return options.unpackers;
    return make_unpackers(kUnpackThreads);
}

}  // namespace

std::shared_ptr<ThreadPool> make_unpackers(uint32_t threads) {
    return std::make_shared<ThreadPool>("quire-unpack", threads,
                                        std::numeric_limits<uint32_t>::max());
}

struct Unpacker::Job {
    std::vector<TierGet> gets;
    std::vector<Status> results;  // of each slab, written once, by whoever has it in hand
    TierDone done;
    std::mutex mutex;
    std::deque<std::pair<size_t, size_t>> unread;  // [first, end) of gets
    int reading = 0;                               // ranges with the store below
    size_t left = 0;                               // slabs without a result
    bool reported = false;
};

Unpacker::Unpacker(TierStore& inner, const PackedOptions& options, PackCounters& counters)
    : inner_(inner), options_(options), counters_(counters), threads_(threads_of(options)) {}

Unpacker::~Unpacker() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return inside_ == 0; });
}

Status Unpacker::get(std::vector<TierGet> batch, TierDone done) {
    auto job = std::make_shared<Job>();
    job->gets = std::move(batch);
    job->results.resize(job->gets.size());
    job->left = job->gets.size();
    job->done = std::move(done);
    for (size_t at = 0, first = 0; at < job->gets.size(); first = at) {
        for (uint64_t bytes = 0; at < job->gets.size() && bytes < options_.get_batch_bytes; ++at) {
            job->gets[at].or_less = true;
            bytes += job->gets[at].into.size();
        }
        job->unread.emplace_back(first, at);
    }
    if (job->unread.empty()) job->unread.emplace_back(0, 0);
    enter();
    Status accepted = read_next(job);
    if (accepted.code() == Code::busy) {
        leave();
        return accepted;
    }
    if (!accepted.ok()) refuse_unread(job, accepted);
    for (int i = 1; i < kReadsAtOnce; ++i) read_on(job);
    return {};
}

// Hands the next range to the store below. ok as well when there is none. What was refused is
// unread again.
Status Unpacker::read_next(const std::shared_ptr<Job>& job) {
    std::pair<size_t, size_t> range;
    {
        std::lock_guard lock(job->mutex);
        if (job->unread.empty()) return {};
        range = job->unread.front();
        job->unread.pop_front();
        ++job->reading;
    }
    const auto [first, end] = range;
    const auto at = job->gets.begin();
    std::vector<TierGet> some(at + static_cast<ptrdiff_t>(first), at + static_cast<ptrdiff_t>(end));
    Status accepted = inner_.get(std::move(some),
                                 [this, job, first = first](std::span<const Status> results) {
                                     arrived(job, first, results);
                                 },
                                 {});
    if (accepted.ok()) return {};
    std::lock_guard lock(job->mutex);
    job->unread.push_front(range);
    --job->reading;
    return accepted;
}

void Unpacker::read_on(const std::shared_ptr<Job>& job) {
    const Status accepted = read_next(job);
    if (accepted.ok()) return;
    {
        std::lock_guard lock(job->mutex);
        if (job->reading > 0) return;  // the next to arrive asks again
    }
    refuse_unread(job, accepted);
}

void Unpacker::refuse_unread(const std::shared_ptr<Job>& job, const Status& why) {
    size_t refused = 0;
    {
        std::lock_guard lock(job->mutex);
        for (const auto& [first, end] : job->unread)
            for (size_t i = first; i < end; ++i, ++refused) job->results[i] = why;
        job->unread.clear();
    }
    settle(job, refused);
}

// On a thread of the store's, which may not be called from here.
void Unpacker::arrived(const std::shared_ptr<Job>& job, size_t first,
                       std::span<const Status> results) {
    enter();  // tasks may end the job, and its owner this object, before all were handed out
    {
        std::lock_guard lock(job->mutex);
        --job->reading;
        std::ranges::copy(results, job->results.begin() + static_cast<ptrdiff_t>(first));
    }
    submit([this, job] { read_on(job); });
    size_t failed = 0;
    for (size_t i = first; i < first + results.size(); ++i) {
        if (!results[i - first].ok())
            ++failed;
        else
            submit([this, job, i] {
                unpack(*job, i);
                settle(job, 1);
            });
    }
    submit([this, job, failed] { settle(job, failed); });
    leave();
}

void Unpacker::submit(std::function<void()> task) {
    enter();
    const Status accepted = threads_->submit([this, task = std::move(task)] {
        task();
        leave();
    });
    QUIRE_CHECK(accepted.ok(), "the queue of unpacking has no bound");
}

void Unpacker::unpack(Job& job, size_t i) {
    std::vector<std::byte> scratch;
    const TierGet& get = job.gets[i];
    const bool packed = slab_header(std::span<const std::byte>(get.into)).packed.layer_count != 0;
    const int64_t begin_ns = options_.clock->monotonic_ns();
    Status done = unpack_slab(*options_.packing, get.into, &scratch);
    counters_.unpack_ns += static_cast<uint64_t>(options_.clock->monotonic_ns() - begin_ns);
    counters_.unpacked_blocks += packed && done.ok();
    if (done.ok()) return;
    // A buffer of another size is the caller's mistake, and must not cost the block.
    if (done.code() != Code::invalid) {
        limited_log_.warn("slab_not_unpacked", "{}; a miss", done.error().message);
        inner_.erase({&get.key, 1});
    }
    job.results[i] = std::move(done);
}

// `slabs` more have their results.
void Unpacker::settle(const std::shared_ptr<Job>& job, size_t slabs) {
    {
        std::lock_guard lock(job->mutex);
        job->left -= slabs;
        if (job->left > 0 || job->reported) return;
        // A read of nothing, and the last task of a batch that failed whole, come here too.
        job->reported = true;
    }
    counters_.pending_gets -= 1;
    job->done(job->results);
    leave();
}

void Unpacker::enter() {
    std::lock_guard lock(mutex_);
    ++inside_;
}

void Unpacker::leave() {
    std::lock_guard lock(mutex_);
    --inside_;
    idle_.notify_all();
}

}  // namespace quire
