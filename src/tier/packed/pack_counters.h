// What packing did so far. Shared by the threads of one PackedStore.
#pragma once

#include <atomic>
#include <cstdint>

namespace quire {

struct PackCounters {
    std::atomic<uint64_t> packed_blocks{0}, unpacked_blocks{0}, failures{0};
    std::atomic<uint64_t> from_bytes{0}, to_bytes{0};
    std::atomic<uint64_t> pack_ns{0}, unpack_ns{0};
    std::atomic<uint64_t> pending_gets{0}, pending_puts{0};
};

}  // namespace quire
