#include "tier/disk/cleaner.h"

#include <algorithm>
#include <mutex>

#include "base/arena.h"

namespace quire {
namespace {

constexpr uint64_t kChunkUnits = (4u << 20) / kDiskUnitBytes;

IndexRecord erase_record(const BlockKey& key, const DiskPlace& place) {
    IndexRecord record;
    record.op = RecordOp::erase;
    record.key = key;
    record.segment = place.segment;
    record.offset_units = place.offset_units;
    record.units = place.units;
    return record;
}

}  // namespace

CleaningPlan Cleaner::plan(uint32_t victim, uint32_t budget_units, std::vector<Move>& moves,
                           std::vector<IndexRecord>& erased) const {
    std::shared_lock lock(state_.catalog.mutex());
    const Catalog& catalog = state_.catalog;
    CleaningPlan plan = plan_cleaning(catalog, victim, budget_units);
    for (Slot slot : plan.moves) {
        const SlotEntry& entry = catalog.at(slot);
        moves.push_back({entry.key, entry.place(), {}, slot, {}});
    }
    for (Slot slot : plan.drops) {
        const SlotEntry& entry = catalog.at(slot);
        if (entry.segment != victim) erased.push_back(erase_record(entry.key, entry.place()));
    }
    return plan;
}

Status Cleaner::clean(uint32_t victim, ActiveSegment& active, uint32_t budget_units) {
    std::vector<Move> moves;
    std::vector<IndexRecord> records;
    CleaningPlan what = plan(victim, budget_units, moves, records);
    QUIRE_TRY(move_all(moves, active));
    IndexRecord& drop = records.emplace_back();
    drop.op = RecordOp::drop_segment;
    drop.segment = victim;
    QUIRE_TRY(log_.append(records));
    uint64_t evicted = 0;
    {
        std::unique_lock lock(state_.catalog.mutex());
        for (Slot slot : what.drops) {
            // Readers may have forgotten some meanwhile; only this thread fills slots anew.
            if (!state_.catalog.at(slot).live()) continue;
            state_.catalog.erase(slot);
            evicted++;
        }
        evicted += state_.catalog.drop_segment(victim);
    }
    state_.counters.evicted_blocks.fetch_add(evicted);
    return state_.files.remove(victim);
}

Status Cleaner::move_all(std::span<Move> moves, ActiveSegment& active) {
    if (moves.empty() || !active.open()) return {};
    uint64_t chunk_units = kChunkUnits;
    for (const Move& move : moves) {
        chunk_units = std::max<uint64_t>(chunk_units, move.from.units);
    }
    auto memory = Arena::create({.bytes = chunk_units * kDiskUnitBytes});
    if (!memory.ok()) return memory.error();
    const std::span<std::byte> buffer = memory->bytes();
    size_t begin = 0;
    while (begin < moves.size()) {
        uint64_t units = 0;
        size_t end = begin;
        while (end < moves.size() && units + moves[end].from.units <= chunk_units) {
            units += moves[end++].from.units;
        }
        QUIRE_TRY(move_chunk(moves.subspan(begin, end - begin), active, buffer));
        begin = end;
    }
    return {};
}

Status Cleaner::move_chunk(std::span<Move> moves, ActiveSegment& active,
                           std::span<std::byte> buffer) {
    QUIRE_TRY(read_chunk(moves, buffer));
    std::vector<Move> sound;
    for (Move& move : moves) {
        if (move.bytes.empty() || !verify_slab(move.bytes).ok()) continue;
        if (slab_header(std::span<const std::byte>(move.bytes)).key != move.key) continue;
        auto place = active.place(move.from.units);
        if (!place) break;  // the budget was larger than what is free: the rest is dropped
        move.to = *place;
        sound.push_back(move);
    }
    if (sound.empty()) return {};
    QUIRE_TRY(write_chunk(sound, active));
    return publish(sound);
}

// A slab that cannot be read is not moved, and so dropped with the segment.
Status Cleaner::read_chunk(std::span<Move> moves, std::span<std::byte> buffer) {
    auto file = state_.files.open(moves.front().from.segment);
    if (!file.ok()) return {};
    std::vector<IoRequest> requests;
    for (Move& move : moves) {
        move.bytes = buffer.first(move.from.units * kDiskUnitBytes);
        buffer = buffer.subspan(move.bytes.size());
        requests.push_back(
            io_read((*file)->fd(), uint64_t{move.from.offset_units} * kDiskUnitBytes, move.bytes));
    }
    auto results = run_io(state_.io, requests);
    for (size_t i = 0; i < moves.size(); i++) {
        if (results[i].ok() && *results[i] == moves[i].bytes.size()) continue;
        if (!results[i].ok()) state_.counters.io_errors.fetch_add(1);
        moves[i].bytes = {};
    }
    return {};
}

Status Cleaner::write_chunk(std::vector<Move>& sound, ActiveSegment& active) {
    std::vector<IoRequest> requests;
    for (const Move& move : sound) {
        requests.push_back(io_write(active.file()->fd(),
                                    uint64_t{move.to.offset_units} * kDiskUnitBytes, move.bytes));
    }
    for (const auto& result : run_io(state_.io, requests)) {
        if (!result.ok()) return result.error();
    }
    return {};
}

Status Cleaner::publish(const std::vector<Move>& moved) {
    std::vector<IndexRecord> records;
    {
        std::shared_lock lock(state_.catalog.mutex());
        for (const Move& move : moved) {
            IndexRecord record = put_record(state_.catalog, move.slot);
            if (record.units == 0) continue;  // forgotten meanwhile
            record.segment = move.to.segment;
            record.offset_units = move.to.offset_units;
            records.push_back(record);
        }
    }
    QUIRE_TRY(log_.append(std::move(records)));
    std::vector<IndexRecord> erased;
    {
        std::unique_lock lock(state_.catalog.mutex());
        for (const Move& move : moved) {
            const SlotEntry& entry = state_.catalog.at(move.slot);
            if (entry.live() && entry.place() == move.from) {
                state_.catalog.move(move.slot, move.to);
            } else {
                // Erased between the locks, by its old place: the new one must be erased as well.
                erased.push_back(erase_record(move.key, move.to));
            }
        }
    }
    return log_.append(std::move(erased));
}

}  // namespace quire
