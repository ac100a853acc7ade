// A TierStore for tests: keeps slabs in a map, completes only when told, and misbehaves on request.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tier/tier.h"

namespace quire::testing {

// What a get does to one block.
enum class Fault : uint8_t { none, miss, io, corrupt_code, damaged_bytes, other_block };

class FakeStore final : public TierStore {
 public:
    explicit FakeStore(Tier tier) : tier_(tier) {}
    ~FakeStore() override { step_all(); }

    TierInfo info() const override { return {tier_, "fake", {.lists = true}, 0}; }

    void contains(std::span<const BlockKey> keys, std::span<uint8_t> present) const override {
        std::lock_guard lock(mutex_);
        for (size_t i = 0; i < keys.size(); ++i) present[i] = slabs_.contains(keys[i]);
    }

    Status get(std::vector<TierGet> batch, TierDone done, TierLanding landing) override {
        std::lock_guard lock(mutex_);
        if (refuse_gets) return make_error(Code::busy, "refused by the test");
        if (by_layer && landing.layers > 0) {
            queue_layers(std::move(batch), std::move(done), std::move(landing));
            return {};
        }
        queue_.push_back([this, batch = std::move(batch), done = std::move(done)] {
            std::vector<Status> results;
            for (const TierGet& item : batch) results.push_back(get_one(item));
            done(results);
        });
        return {};
    }

    // Puts complete at once, unless held: their order against other work is the storer's business.
    Status put(std::vector<TierPut> batch, TierDone done) override {
        {
            std::lock_guard lock(mutex_);
            if (hold_puts) {
                held_puts_.emplace_back(std::move(batch), std::move(done));
                return {};
            }
        }
        put_now(batch, done);
        return {};
    }
    // Ends the holding, and completes what was held.
    void let_puts_go() {
        std::unique_lock lock(mutex_);
        hold_puts = false;
        auto held = std::exchange(held_puts_, {});
        lock.unlock();
        for (auto& [batch, done] : held) put_now(batch, done);
    }
    // REQUIRES: before the first put.
    bool hold_puts = false;

    void put_now(const std::vector<TierPut>& batch, const TierDone& done) {
        std::vector<Status> results;
        {
            std::lock_guard lock(mutex_);
            for (const TierPut& item : batch) {
                if (refuse_puts) {
                    results.push_back(make_error(Code::full, "full, says the test"));
                    continue;
                }
                if (!verify_slab(item.slab).ok()) ++unsealed_puts;
                slabs_[item.key].assign(item.slab.begin(), item.slab.end());
                results.emplace_back();
            }
        }
        done(results);
    }

    void erase(std::span<const BlockKey> keys) override {
        std::lock_guard lock(mutex_);
        for (const BlockKey& key : keys) slabs_.erase(key);
    }

    Result<std::vector<TierEntry>> list() const override {
        std::lock_guard lock(mutex_);
        std::vector<TierEntry> all;
        for (const auto& [key, slab] : slabs_)
            all.push_back({key, {}, static_cast<uint32_t>(slab.size())});
        return all;
    }

    TierStats stats() const override {
        std::lock_guard lock(mutex_);
        TierStats stats;
        stats.blocks = slabs_.size();
        return stats;
    }
    Status flush(int64_t) override { return {}; }
    std::vector<SlabOrigin> origins() const override {
        std::lock_guard lock(mutex_);
        std::vector<SlabOrigin> found;
        for (const auto& [key, slab] : slabs_) {
            SlabHeader header;
            std::memcpy(&header, slab.data(), sizeof header);
            const SlabOrigin origin{header.model, header.layout_digest, header.codec,
                                    header.token_count};
            if (std::find(found.begin(), found.end(), origin) == found.end())
                found.push_back(origin);
        }
        return found;
    }

    void on_evicted(TierEvicted evicted) override {
        std::lock_guard lock(mutex_);
        evicted_ = std::move(evicted);
    }
    // Gives everything up for room, and says so.
    void evict_all() {
        std::map<BlockKey, std::vector<std::byte>> gone;
        std::unique_lock lock(mutex_);
        gone.swap(slabs_);
        const TierEvicted tell = evicted_;
        lock.unlock();
        for (const auto& [key, slab] : gone)
            if (tell) tell(slab);
    }

    // Forgets everything without a word, as a tier that needs the room does.
    void drop_all() {
        std::lock_guard lock(mutex_);
        slabs_.clear();
    }

    // Completes the oldest queued get batch; false if there is none.
    bool step() {
        std::function<void()> work;
        {
            std::lock_guard lock(mutex_);
            if (queue_.empty()) return false;
            work = std::move(queue_.front());
            queue_.pop_front();
        }
        work();
        return true;
    }
    void step_all() {
        while (step()) {
        }
    }

    // Asked per block read.
    std::function<Fault(const BlockKey&)> fault = [](const BlockKey&) { return Fault::none; };
    bool by_layer = false;  // each step() of a get lands one layer; one more completes it
    bool refuse_gets = false;
    bool refuse_puts = false;
    int unsealed_puts = 0;

 private:
    // Holds mutex_. Damaged blocks fail in their last layer, others at once.
    void queue_layers(std::vector<TierGet> batch, TierDone done, TierLanding landing) {
        struct Flight {
            std::vector<TierGet> batch;
            TierDone done;
            TierLanding landing;
            std::vector<std::vector<std::byte>> read;  // what get_one() gives, per block
            std::vector<Status> results;
            bool sound = true, headers = true;
        };
        auto flight = std::make_shared<Flight>();
        flight->batch = std::move(batch);
        flight->done = std::move(done);
        flight->landing = std::move(landing);
        const uint32_t layers = flight->landing.layers;
        queue_.push_back([this, flight, layers] {
            for (const TierGet& item : flight->batch) {
                // Aligned as a slab must be.
                const std::unique_ptr<std::byte, void (*)(void*)> copy(
                    static_cast<std::byte*>(std::aligned_alloc(kSlabAlign, item.into.size())),
                    std::free);
                const std::span<std::byte> bytes(copy.get(), item.into.size());
                flight->results.push_back(get_one({item.key, bytes}));
                flight->read.emplace_back(bytes.begin(), bytes.end());
                flight->sound &= flight->results.back().ok();
                flight->headers &= flight->results.back().ok() || verify_slab_header(bytes).ok();
            }
            land_layer(flight->batch, flight->read, flight->landing, 0,
                       layers > 1 ? flight->headers : flight->sound);
        });
        for (uint32_t layer = 1; layer < layers; ++layer)
            queue_.push_back([flight, layer, layers] {
                land_layer(flight->batch, flight->read, flight->landing, layer,
                           layer + 1 < layers || flight->sound);
            });
        queue_.push_back([flight] { flight->done(flight->results); });
    }
    static void land_layer(const std::vector<TierGet>& batch,
                           const std::vector<std::vector<std::byte>>& read,
                           const TierLanding& landing, uint32_t layer, bool sound) {
        for (size_t i = 0; i < batch.size(); ++i) {
            const size_t end = layer + 1 == landing.layers
                                   ? batch[i].into.size()
                                   : kSlabHeaderBytes + (layer + 1) * landing.layer_bytes;
            const size_t from = layer == 0 ? 0 : kSlabHeaderBytes + layer * landing.layer_bytes;
            std::memcpy(batch[i].into.data() + from, read[i].data() + from, end - from);
        }
        if (sound)
            landing.landed(layer + 1);
        else
            landing.failed();
    }

    Status get_one(const TierGet& item) {
        std::lock_guard lock(mutex_);
        const auto it = slabs_.find(item.key);
        if (it == slabs_.end()) return make_error(Code::miss, "not there");
        const std::vector<std::byte>* slab = &it->second;
        switch (fault(item.key)) {
            case Fault::none:
                break;
            case Fault::miss:
                return make_error(Code::miss, "miss, says the test");
            case Fault::io:
                return make_error(Code::io, "EIO, says the test", 5);
            case Fault::corrupt_code:
                std::memset(item.into.data(), 0x5a, item.into.size());
                return make_error(Code::corrupt, "corrupt, says the test");
            case Fault::damaged_bytes:
                // The store is the one that verifies payloads, so it reports what it found.
                std::memcpy(item.into.data(), slab->data(), slab->size());
                item.into[kSlabHeaderBytes + 17] ^= std::byte{1};
                return verify_slab(item.into);
            case Fault::other_block:
                for (const auto& [key, other] : slabs_)
                    if (key != item.key && other.size() == item.into.size()) slab = &other;
                break;
        }
        std::memcpy(item.into.data(), slab->data(), item.into.size());
        return {};
    }

    Tier tier_;
    mutable std::mutex mutex_;
    std::map<BlockKey, std::vector<std::byte>> slabs_;
    TierEvicted evicted_;
    std::deque<std::function<void()>> queue_;
    std::vector<std::pair<std::vector<TierPut>, TierDone>> held_puts_;
};

}  // namespace quire::testing
