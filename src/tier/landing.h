// How slabs come in layer by layer: where a slab may be cut, and how far a batch is.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "tier/tier.h"

namespace quire {

// Consecutive layers of a slab that are moved together.
struct SlabPiece {
    uint32_t first_layer = 0;
    uint32_t end_layer = 0;
    size_t offset = 0;  // in the slab; the first piece begins with the header
    size_t bytes = 0;   // multiple of 4 KiB; the last piece ends with the padding
};

inline constexpr size_t kPieceBytesMin = 128 << 10;  // smaller I/O costs more than it gains
inline constexpr size_t kPiecesMax = 16;

// Cuts a slab of `layers` layers between layers, at multiples of 4 KiB, into pieces of at least
// kPieceBytesMin (but the first, which may be half of that: the sooner it lands, the sooner
// computing begins). One piece where the slab is small or its layers lie askew.
std::vector<SlabPiece> cut_slab(uint32_t layers, uint32_t layer_bytes);

// Counts the pieces of a batch of `slabs` slabs as they are verified, in any order and on any
// threads, and tells `landing` when layers have landed in all of them. A slab that failed is never
// counted.
class LandingCount {
 public:
    LandingCount(TierLanding landing, const std::vector<SlabPiece>& pieces, size_t slabs);

    void landed(size_t piece);  // one slab's
    void failed();              // may be called more than once

 private:
    TierLanding landing_;
    std::vector<uint32_t> ends_;                // of each piece: its end_layer
    std::vector<std::atomic<size_t>> missing_;  // of each piece: slabs that lack it
    std::mutex mutex_;
    size_t told_ = 0;           // pieces that `landing` knows of; under mutex_
    bool failed_told_ = false;  // under mutex_
};

}  // namespace quire
