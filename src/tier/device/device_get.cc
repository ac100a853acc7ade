// Slabs from slots of the device to the host, verified there, whole or layer by layer.
#include <algorithm>

#include "tier/device/device_state.h"
#include "tier/host/get_flight.h"

namespace quire {

using kernels::cuda::CopyDirection;

Status DeviceState::get(std::vector<TierGet> batch, TierDone done, TierLanding landing) {
    QUIRE_TRY(enter());
    auto flight = std::make_shared<GetFlight>(std::move(batch), std::move(done));
    const uint32_t layers = landing.layers;
    if (layers > 0) flight->pieces = cut_slab(layers, landing.layer_bytes);
    const size_t n = flight->items.size();
    flight->landing.emplace(std::move(landing), flight->pieces, n);
    flight->open = n * flight->pieces.size() + 1;
    {
        std::lock_guard lock(mutex_);
        hold_entries(*flight, entries_, options_.layout, layers, "not on the device", stats_);
    }
    // All blocks' first layers before anybody's next ones.
    for (size_t piece = 0; piece < flight->pieces.size(); ++piece)
        for (size_t first = 0; first < n; first += kDeviceRunBlocks)
            run(starts_, [this, flight, piece, first] { get_run(flight, piece, first); });
    run(starts_, [this, flight] { finish(*flight, 1); });
    return {};
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
        let_go_of_entries(flight, entries_, stats_);
    }
    flight.done(flight.results);
    leave();
}

}  // namespace quire
