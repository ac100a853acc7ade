#include "cache/storer.h"

#include <atomic>
#include <chrono>

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "format/slab.h"

namespace quire {
namespace {

// A busy tier is asked again after some of its work completed, this often at most.
constexpr int kBusyRetriesMax = 200;
constexpr auto kBusyWait = std::chrono::milliseconds(50);
constexpr int kBackgroundNice = 10;

}  // namespace

struct Storer::Flight {
    StoreDone done;
    std::atomic<size_t> open{1};  // puts not completed, plus one until all were issued
};

Storer::Storer(std::vector<TierStore*> tiers, OnDone on_done)
    : tiers_(std::move(tiers)), on_done_(std::move(on_done)), thread_([this] { run(); }) {}

Storer::~Storer() {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return flying_ == 0; });
}

void Storer::submit(StoreBatch batch) {
    {
        std::lock_guard lock(mutex_);
        queue_.push_back(std::move(batch));
    }
    changed_.notify_all();
}

void Storer::run() {
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kBackgroundNice);
    for (;;) {
        StoreBatch batch;
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
            if (queue_.empty()) return;
            batch = std::move(queue_.front());
            queue_.pop_front();
            ++flying_;
        }
        store(std::move(batch));
    }
}

void Storer::store(StoreBatch batch) {
    for (StoreItem& item : batch.items) {
        if (!item.sealed) seal_slab(item.slab);
        item.sealed = true;
    }
    auto flight = std::make_shared<Flight>();
    flight->done.results.assign(tiers_.size(), std::vector<Status>(batch.items.size()));
    flight->done.batch = std::move(batch);
    for (size_t tier = 0; tier < tiers_.size(); ++tier) put(flight, tier);
    complete_one(*flight);
}

void Storer::complete_one(Flight& flight) {
    if (flight.open.fetch_sub(1) != 1) return;
    for (StoreItem& item : flight.done.batch.items) item.copy = {};
    on_done_(std::move(flight.done));
    std::lock_guard lock(mutex_);
    --flying_;
    changed_.notify_all();
}

void Storer::put(const std::shared_ptr<Flight>& flight, size_t tier) {
    std::vector<size_t> which;
    for (size_t i = 0; i < flight->done.batch.items.size(); ++i)
        if (flight->done.batch.items[i].tiers >> tier & 1) which.push_back(i);
    if (which.empty()) return;

    const auto finish = [this, flight, tier, which](std::span<const Status> results) {
        for (size_t i = 0; i < which.size(); ++i) flight->done.results[tier][which[i]] = results[i];
        complete_one(*flight);
    };
    flight->open.fetch_add(1);
    Status accepted;
    for (int attempt = 0; attempt < kBusyRetriesMax; ++attempt) {
        std::vector<TierPut> puts;
        for (size_t i : which) {
            const StoreItem& item = flight->done.batch.items[i];
            puts.push_back({item.key, item.slab, item.value});
        }
        accepted = tiers_[tier]->put(std::move(puts), finish);
        if (accepted.code() != Code::busy) break;
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, kBusyWait);
    }
    if (!accepted.ok()) finish(std::vector<Status>(which.size(), accepted));
}

}  // namespace quire
