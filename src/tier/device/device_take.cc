// Loads: slabs from pinned memory into slots, layer by layer, verified where they come from.
#include <algorithm>

#include "tier/device/device_state.h"

namespace quire {
namespace {

// Of a slab, that copy engines move at nearly their full speed.
constexpr uint32_t kLoadBytesMin = 64 << 10;

// Layers that are moved together: as few as may be, for what computes waits for them.
std::vector<SlabPiece> cut_for_load(const SlabHeader& header) {
    const size_t total = slab_bytes_for(header.payload_bytes);
    const uint32_t together = (kLoadBytesMin - 1) / header.layer_bytes + 1;
    std::vector<SlabPiece> pieces;
    for (uint32_t first = 0; first < header.layer_count; first += together) {
        const uint32_t end = std::min<uint32_t>(first + together, header.layer_count);
        const size_t at = first == 0 ? 0 : pieces.back().offset + pieces.back().bytes;
        const size_t behind =
            end == header.layer_count ? total : kSlabHeaderBytes + size_t{end} * header.layer_bytes;
        pieces.push_back({first, end, at, behind - at});
    }
    return pieces;
}

}  // namespace

struct DeviceState::LoadFlight {
    std::vector<TierPut> items;
    TierDone done;
    std::vector<HostEntry*> entries;  // per item, new and used by the load; nullptr: none
    std::vector<std::byte*> slabs;    // per item, held for the caller
    std::vector<Status> results;      // under results_mutex until the last part
    std::mutex results_mutex;
    std::shared_ptr<DeviceLoad> load;
    std::atomic<size_t> open{0};  // copies and checks, and one for who hands them out

    void fail(size_t item, const Status& why) {
        std::lock_guard lock(results_mutex);
        if (results[item].ok()) results[item] = why;
    }
};

Result<std::shared_ptr<DeviceLoad>> DeviceState::load(std::vector<TierPut> batch, TierDone done) {
    if (batch.empty()) return make_error(Code::invalid, "a load of no blocks");
    for (const TierPut& item : batch) {
        QUIRE_TRY(verify_slab_header(item.slab));
        if (!is_pinned(item.slab) || item.slab.size() != batch[0].slab.size() ||
            slab_header(item.slab).group != slab_header(batch[0].slab).group ||
            slab_header(item.slab).layer_bytes % kernels::cuda::kCopyAlign != 0)
            return make_error(Code::invalid,
                              "a load is of slabs of one group in the store's pinned pool");
    }
    QUIRE_TRY(enter());
    auto flight = std::make_shared<LoadFlight>();
    flight->results.resize(batch.size());
    flight->entries.resize(batch.size());
    flight->slabs.resize(batch.size());
    flight->items = std::move(batch);
    flight->done = std::move(done);
    admit_all(*flight);
    const SlabHeader& header = slab_header(flight->items[0].slab);
    const size_t n = flight->items.size();
    const size_t runs = (n + kDeviceRunBlocks - 1) / kDeviceRunBlocks;
    const auto load = std::make_shared<DeviceLoad>(cut_slab(header.layer_count, header.layer_bytes),
                                                   flight->slabs, runs);
    flight->load = load;
    if (const Status made = load->make_events(); !made.ok())
        for (size_t i = 0; i < n; ++i) flight->fail(i, made);
    if (std::ranges::any_of(flight->results, [](const Status& s) { return !s.ok(); }))
        load->failed();
    const size_t pieces = load->pieces().size();
    flight->open = pieces * (runs + 1) + 1;
    for (size_t piece = 0; piece < pieces; ++piece) {
        send_piece(flight, piece);
        for (size_t first = 0; first < n; first += kDeviceRunBlocks)
            run(checks_, [this, flight, piece, first] { verify_run(*flight, piece, first); });
    }
    run(checks_, [this, flight] { finish(*flight); });
    return load;
}

void DeviceState::admit_all(LoadFlight& flight) {
    for (size_t i = 0; i < flight.items.size(); ++i) {
        const auto admitted = admit(flight.items[i]);
        if (!admitted.ok()) {
            flight.fail(i, admitted.error());
            continue;
        }
        std::lock_guard lock(mutex_);
        HostEntry* entry = *admitted;
        flight.entries[i] = entry;
        if (entry == nullptr) entry = entries_.find(flight.items[i].key);
        if (!entry || entry->doomed || (!flight.entries[i] && !entry->ready)) {
            flight.fail(i, make_error(Code::busy, "the block is on its way, or was erased"));
            continue;
        }
        ++entry->users;
        flight.slabs[i] = slot(*entry);
    }
}

void DeviceState::send_piece(const std::shared_ptr<LoadFlight>& flight, size_t piece) {
    const SlabPiece& part = flight->load->pieces()[piece];
    DeviceMover::Copy copy{.fence = flight->load->fence(piece)};
    for (size_t i = 0; i < flight->items.size(); ++i)
        if (const HostEntry* entry = flight->entries[i])
            copy.fragments.push_back({flight->items[i].slab.data() + part.offset,
                                      slot(*entry) + part.offset, part.bytes});
    copy.fenced = [flight, piece] { flight->load->fenced(piece); };
    copy.ended = [this, flight](const Status& copied) {
        if (!copied.ok()) {
            for (size_t i = 0; i < flight->items.size(); ++i) flight->fail(i, copied);
            flight->load->failed();
        }
        finish(*flight);
    };
    mover_->submit(std::move(copy));
}

void DeviceState::verify_run(LoadFlight& flight, size_t piece, size_t first) {
    const SlabPiece& part = flight.load->pieces()[piece];
    const size_t end = std::min(flight.items.size(), first + kDeviceRunBlocks);
    for (size_t i = first; i < end; ++i) {
        if (!flight.entries[i]) continue;
        const Status sound =
            verify_slab_layers(flight.items[i].slab, part.first_layer, part.end_layer);
        if (sound.ok()) continue;
        flight.fail(i, sound);
        flight.load->failed();
    }
    flight.load->verified(piece);
    finish(flight);
}

void DeviceState::finish(LoadFlight& flight) {
    if (flight.open.fetch_sub(1) != 1) return;
    {
        std::lock_guard lock(mutex_);
        for (size_t i = 0; i < flight.items.size(); ++i) {
            HostEntry* entry = flight.entries[i];
            if (!entry) continue;
            if (flight.results[i].code() == Code::corrupt) ++stats_.corrupt_blocks;
            settle(*entry, flight.items[i], flight.results[i]);
        }
    }
    flight.done(flight.results);
    leave();
}

}  // namespace quire
