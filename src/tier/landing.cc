#include "tier/landing.h"

#include <algorithm>

#include "format/slab.h"

namespace quire {

std::vector<SlabPiece> cut_slab(uint32_t layers, uint32_t layer_bytes) {
    const size_t total = slab_bytes_for(size_t{layers} * layer_bytes);
    const size_t least = std::max(kPieceBytesMin, total / kPiecesMax);
    std::vector<SlabPiece> pieces;
    SlabPiece piece;
    for (uint32_t end = 1; end < layers; ++end) {
        const size_t at = kSlabHeaderBytes + size_t{end} * layer_bytes;
        const size_t bytes = at - piece.offset;
        if (at % kSlabAlign != 0 || total - at < kPieceBytesMin) continue;
        if (bytes < (pieces.empty() ? least / 2 : least)) continue;
        piece.end_layer = end;
        piece.bytes = bytes;
        pieces.push_back(piece);
        piece = {end, 0, at, 0};
    }
    piece.end_layer = layers;
    piece.bytes = total - piece.offset;
    pieces.push_back(piece);
    return pieces;
}

LandingCount::LandingCount(TierLanding landing, const std::vector<SlabPiece>& pieces, size_t slabs)
    : landing_(std::move(landing)), missing_(pieces.size()) {
    for (size_t i = 0; i < pieces.size(); ++i) {
        ends_.push_back(pieces[i].end_layer);
        missing_[i].store(slabs, std::memory_order_relaxed);
    }
}

void LandingCount::landed(size_t piece) {
    if (missing_[piece].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    std::lock_guard lock(mutex_);
    const size_t before = told_;
    while (told_ < ends_.size() && missing_[told_].load(std::memory_order_acquire) == 0) ++told_;
    if (told_ > before && landing_.landed) landing_.landed(ends_[told_ - 1]);
}

void LandingCount::failed() {
    std::lock_guard lock(mutex_);
    if (failed_told_) return;
    failed_told_ = true;
    if (landing_.failed) landing_.failed();
}

}  // namespace quire
