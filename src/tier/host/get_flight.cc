#include "tier/host/get_flight.h"

namespace quire {

GetFlight::GetFlight(std::vector<TierGet> gets, TierDone when_done)
    : items(std::move(gets)),
      done(std::move(when_done)),
      entries(items.size()),
      results(items.size()) {}

void GetFlight::fail(size_t item, const Status& why) {
    {
        std::lock_guard lock(results_mutex);
        if (results[item].ok()) results[item] = why;
    }
    landing->failed();
}

void hold_entries(GetFlight& flight, HostEntries& entries, const KvLayout& layout, uint32_t layers,
                  std::string_view miss, TierStats& stats) {
    for (size_t i = 0; i < flight.items.size(); ++i) {
        const TierGet& item = flight.items[i];
        ++stats.gets;
        HostEntry* entry = entries.find(item.key);
        if (!entry || !entry->ready || entry->doomed) {
            flight.fail(i, make_error(Code::miss, std::string(miss)));
            continue;
        }
        const bool fits =
            item.into.size() == entry->bytes || (item.or_less && item.into.size() > entry->bytes);
        if (!fits || (layers > 0 && layers != layout.groups[entry->pool].layers.size())) {
            flight.fail(i, make_error(Code::invalid, "the buffer is not of the slab's shape"));
            continue;
        }
        flight.entries[i] = entry;
        ++entry->users;
        entries.touch(*entry);
    }
}

void let_go_of_entries(GetFlight& flight, HostEntries& entries, TierStats& stats) {
    for (size_t i = 0; i < flight.items.size(); ++i) {
        HostEntry* entry = flight.entries[i];
        if (!entry) continue;
        if (flight.results[i].ok()) {
            ++stats.get_hits;
            stats.get_bytes += entry->bytes;
        } else if (flight.results[i].code() == Code::corrupt) {
            ++stats.corrupt_blocks;
            entries.doom(*entry);
        }
        entries.drop_user(*entry);
    }
    stats.get_ns += static_cast<uint64_t>(system_clock().monotonic_ns() - flight.start_ns);
}

}  // namespace quire
