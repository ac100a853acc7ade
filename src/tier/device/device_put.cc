// Slabs from the host into slots of the device.
#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "tier/device/device_state.h"

namespace quire {

using kernels::cuda::CopyDirection;
using kernels::cuda::CopyFragment;

struct DeviceState::PutFlight {
    std::vector<TierPut> items;
    std::vector<Status> results;
    TierDone done;
    std::atomic<size_t> open{0};  // blocks, and one for who hands them out
    int64_t start_ns = system_clock().monotonic_ns();
};

Status DeviceState::put(std::vector<TierPut> batch, TierDone done) {
    QUIRE_TRY(enter());
    auto flight = std::make_shared<PutFlight>();
    flight->results.resize(batch.size());
    flight->items = std::move(batch);
    flight->done = std::move(done);
    flight->open = flight->items.size() + 1;
    for (size_t first = 0; first < flight->items.size(); first += kDeviceRunBlocks)
        run(starts_, [this, flight, first] { put_run(flight, first); });
    run(starts_, [this, flight] { finish(*flight, 1); });
    return {};
}

Result<HostEntry*> DeviceState::admit(const TierPut& item) {
    QUIRE_TRY(verify_slab_header(item.slab));
    const SlabHeader& header = slab_header(item.slab);
    if (header.key != item.key || !entries_.takes(header.group, item.slab.size()))
        return make_error(Code::invalid, "the slab is not the block its key names");
    std::lock_guard lock(mutex_);
    if (entries_.find(item.key)) return nullptr;
    const HostEntries::Reserved reserved = entries_.reserve(header, item.slab.size());
    entries_.give_spare(reserved);
    if (reserved.entry) return reserved.entry;
    ++stats_.puts_rejected;
    return make_error(Code::full, "every block of the device is in use");
}

void DeviceState::settle(HostEntry& entry, const TierPut& item, const Status& copied) {
    if (copied.ok()) {
        ++stats_.puts;
        stats_.put_bytes += item.slab.size();
        const SlabHeader& header = slab_header(item.slab);
        if (!entry.doomed)
            entries_.make_ready(
                entry, {header.prefix.value, header.first_position / header.token_count, false, 0});
    } else {
        entries_.doom(entry);
    }
    entries_.drop_user(entry);
}

void DeviceState::put_run(const std::shared_ptr<PutFlight>& flight, size_t first) {
    const size_t end = std::min(flight->items.size(), first + kDeviceRunBlocks);
    std::vector<Incoming> straight, bounced;
    for (size_t i = first; i < end; ++i) {
        const auto entry = admit(flight->items[i]);
        if (!entry.ok()) flight->results[i] = entry.error();
        if (!entry.ok() || *entry == nullptr)
            finish(*flight, 1);
        else
            (is_pinned(flight->items[i].slab) ? straight : bounced).push_back({i, *entry});
    }
    if (!straight.empty()) send(flight, std::move(straight), {});
    for (size_t at = 0; at < bounced.size();) {
        std::vector<std::byte*> places = bounce_->take(bounced.size() - at);
        const size_t n = places.size();
        for (size_t i = 0; i < n; ++i) {
            const std::span<const std::byte> slab = flight->items[bounced[at + i].item].slab;
            std::memcpy(places[i], slab.data(), slab.size());
        }
        const auto begin = bounced.begin() + static_cast<ptrdiff_t>(at);
        send(flight, {begin, begin + static_cast<ptrdiff_t>(n)}, std::move(places));
        at += n;
    }
}

// From `places`, or without any from where the slabs are.
void DeviceState::send(const std::shared_ptr<PutFlight>& flight, std::vector<Incoming> blocks,
                       std::vector<std::byte*> places) {
    DeviceMover::Copy copy;
    for (size_t i = 0; i < blocks.size(); ++i) {
        const std::span<const std::byte> slab = flight->items[blocks[i].item].slab;
        copy.fragments.push_back(
            {places.empty() ? slab.data() : places[i], slot(*blocks[i].entry), slab.size()});
    }
    copy.ended = [this, flight, blocks = std::move(blocks),
                  places = std::move(places)](const Status& copied) {
        bounce_->give(places);
        {
            std::lock_guard lock(mutex_);
            for (const Incoming& block : blocks) {
                flight->results[block.item] = copied;
                settle(*block.entry, flight->items[block.item], copied);
            }
        }
        finish(*flight, blocks.size());
    };
    mover_->submit(std::move(copy));
}

void DeviceState::finish(PutFlight& flight, size_t blocks) {
    if (flight.open.fetch_sub(blocks) != blocks) return;
    {
        std::lock_guard lock(mutex_);
        stats_.put_ns += static_cast<uint64_t>(system_clock().monotonic_ns() - flight.start_ns);
    }
    flight.done(flight.results);
    leave();
}

}  // namespace quire
