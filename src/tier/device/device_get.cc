// Slabs from slots of the device to the host, verified there, whole or layer by layer.
#include <algorithm>
#include <limits>

#include "base/clock.h"
#include "tier/device/device_state.h"
#include "tier/host/copy_slab.h"

namespace quire {

using kernels::cuda::CopyDirection;

struct DeviceState::GetFlight {
    std::vector<TierGet> items;
    TierDone done;
    std::vector<SlabPiece> pieces{{0, std::numeric_limits<uint32_t>::max(), 0, 0}};
    std::optional<LandingCount> landing;
    std::vector<HostEntry*> entries;  // per item, used until the end; nullptr: nothing to copy
    std::vector<Status> results;      // under results_mutex until the last part
    std::mutex results_mutex;
    std::atomic<size_t> open{0};  // pieces of blocks, and one for who hands them out
    int64_t start_ns = system_clock().monotonic_ns();

    GetFlight(std::vector<TierGet> gets, TierDone when_done)
        : items(std::move(gets)),
          done(std::move(when_done)),
          entries(items.size()),
          results(items.size()) {}
    // The first thing that went wrong counts.
    void fail(size_t item, const Status& why) {
        {
            std::lock_guard lock(results_mutex);
            if (results[item].ok()) results[item] = why;
        }
        landing->failed();
    }
};

Status DeviceState::get(std::vector<TierGet> batch, TierDone done, TierLanding landing) {
    QUIRE_TRY(enter());
    auto flight = std::make_shared<GetFlight>(std::move(batch), std::move(done));
    const uint32_t layers = landing.layers;
    if (layers > 0) flight->pieces = cut_slab(layers, landing.layer_bytes);
    const size_t n = flight->items.size();
    flight->landing.emplace(std::move(landing), flight->pieces, n);
    flight->open = n * flight->pieces.size() + 1;
    hold_entries(*flight, layers);
    // All blocks' first layers before anybody's next ones.
    for (size_t piece = 0; piece < flight->pieces.size(); ++piece)
        for (size_t first = 0; first < n; first += kDeviceRunBlocks)
            run(starts_, [this, flight, piece, first] { get_run(flight, piece, first); });
    run(starts_, [this, flight] { finish(*flight, 1); });
    return {};
}

// `layers`: what each slab must have, when the caller said so.
void DeviceState::hold_entries(GetFlight& flight, uint32_t layers) {
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < flight.items.size(); ++i) {
        const TierGet& item = flight.items[i];
        ++stats_.gets;
        HostEntry* entry = entries_.find(item.key);
        if (!entry || !entry->ready || entry->doomed) {
            flight.fail(i, make_error(Code::miss, "not on the device"));
            continue;
        }
        const bool fits =
            item.into.size() == entry->bytes || (item.or_less && item.into.size() > entry->bytes);
        if (!fits || (layers > 0 && layers != options_.layout.groups[entry->pool].layers.size())) {
            flight.fail(i, make_error(Code::invalid, "the buffer is not of the slab's shape"));
            continue;
        }
        flight.entries[i] = entry;
        ++entry->users;
        entries_.touch(*entry);
    }
}

// One piece of some of the batch's slabs. What lands whole in pinned memory needs no other.
void DeviceState::get_run(const std::shared_ptr<GetFlight>& flight, size_t piece, size_t first) {
    const size_t end = std::min(flight->items.size(), first + kDeviceRunBlocks);
    std::vector<size_t> straight, bounced;
    for (size_t i = first; i < end; ++i) {
        if (!flight->entries[i]) continue;
        const bool pinned = flight->pieces.size() == 1 && is_pinned(flight->items[i].into);
        (pinned ? straight : bounced).push_back(i);
    }
    const size_t nothing = end - first - straight.size() - bounced.size();
    if (!straight.empty()) fetch(flight, piece, std::move(straight), {});
    for (size_t at = 0; at < bounced.size();) {
        std::vector<std::byte*> places = bounce_->take(bounced.size() - at);
        const auto begin = bounced.begin() + static_cast<ptrdiff_t>(at);
        at += places.size();
        fetch(flight, piece, {begin, bounced.begin() + static_cast<ptrdiff_t>(at)},
              std::move(places));
    }
    if (nothing > 0) finish(*flight, nothing);
}

// Into `places`, or without any to where the slabs are wanted.
void DeviceState::fetch(const std::shared_ptr<GetFlight>& flight, size_t piece,
                        std::vector<size_t> items, std::vector<std::byte*> places) {
    DeviceMover::Copy copy{.direction = CopyDirection::to_host};
    const SlabPiece& part = flight->pieces[piece];
    for (size_t i = 0; i < items.size(); ++i) {
        const HostEntry& entry = *flight->entries[items[i]];
        const size_t bytes = flight->pieces.size() == 1 ? entry.bytes : part.bytes;
        std::byte* to = places.empty() ? flight->items[items[i]].into.data() : places[i];
        copy.fragments.push_back({slot(entry) + part.offset, to + part.offset, bytes});
        // Each piece is checked by the header, which the others may come before.
        if (piece > 0) copy.fragments.push_back({slot(entry), to, kSlabHeaderBytes});
    }
    copy.ended = [this, flight, piece, items = std::move(items),
                  places = std::move(places)](const Status& copied) {
        run(checks_, [this, flight, piece, items, places, copied] {
            check(*flight, piece, items, places, copied);
        });
    };
    mover_->submit(std::move(copy));
}

void DeviceState::check(GetFlight& flight, size_t piece, std::span<const size_t> items,
                        std::span<std::byte* const> places, const Status& copied) {
    for (size_t i = 0; i < items.size(); ++i) {
        const size_t bytes = flight.entries[items[i]]->bytes;
        const std::span<std::byte> into = flight.items[items[i]].into.first(bytes);
        Status sound = copied;
        if (sound.ok())
            sound = places.empty() ? verify_slab(into)
                                   : copy_slab_layers({places[i], bytes}, into,
                                                      flight.pieces[piece].first_layer,
                                                      flight.pieces[piece].end_layer);
        if (sound.ok())
            flight.landing->landed(piece);
        else
            flight.fail(items[i], sound);
    }
    bounce_->give(places);
    finish(flight, items.size());
}

// The last part counts what became of the batch and gives its entries back.
void DeviceState::finish(GetFlight& flight, size_t parts) {
    if (flight.open.fetch_sub(parts) != parts) return;
    {
        std::lock_guard lock(mutex_);
        for (size_t i = 0; i < flight.items.size(); ++i) {
            HostEntry* entry = flight.entries[i];
            if (!entry) continue;
            if (flight.results[i].ok()) {
                ++stats_.get_hits;
                stats_.get_bytes += entry->bytes;
            } else if (flight.results[i].code() == Code::corrupt) {
                ++stats_.corrupt_blocks;
                entries_.doom(*entry);
            }
            entries_.drop_user(*entry);
        }
        stats_.get_ns += static_cast<uint64_t>(system_clock().monotonic_ns() - flight.start_ns);
    }
    flight.done(flight.results);
    leave();
}

}  // namespace quire
