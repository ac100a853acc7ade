#include "kernels/cuda/copy/stage.h"

#include <algorithm>
#include <bit>

namespace quire::kernels::cuda {
namespace {

std::byte* host_of(const CopyFragment& f, CopyDirection direction) {
    return direction == CopyDirection::to_device ? const_cast<std::byte*>(f.from) : f.to;
}

std::byte* device_of(const CopyFragment& f, CopyDirection direction) {
    return direction == CopyDirection::to_device ? f.to : const_cast<std::byte*>(f.from);
}

// False: it would need one more run than there may be.
bool add_to_run(std::vector<StageRun>& runs, std::byte* host, uint64_t at, uint64_t bytes,
                const StageLimits& limits) {
    const bool goes_on = !runs.empty() && runs.back().host + runs.back().bytes == host &&
                         (reinterpret_cast<uintptr_t>(host) & (limits.boundary_bytes - 1)) != 0;
    if (!goes_on) {
        if (runs.size() == limits.runs_max) return false;
        runs.push_back({host, at, 0});
    }
    runs.back().bytes += bytes;
    return true;
}

uint64_t to_boundary(const std::byte* p, uint64_t boundary_bytes) {
    return boundary_bytes - (reinterpret_cast<uintptr_t>(p) & (boundary_bytes - 1));
}

// Nothing of a copy is queued before this is known: it goes through all fragments without a branch
// that depends on them.
template <bool kUp>
CopyShape shape_of(std::span<const CopyFragment> fragments, const StageLimits& limits) {
    const int piece_shift = std::countr_zero(limits.piece_bytes);
    const int boundary_shift = std::countr_zero(limits.boundary_bytes);
    const uint64_t rounding = limits.piece_bytes - 1;
    CopyShape shape;
    uintptr_t host_end = 0, device_end = 0;
    for (const CopyFragment& f : fragments) {
        if (f.bytes == 0) [[unlikely]]
            continue;
        const auto from = reinterpret_cast<uintptr_t>(f.from);
        const auto to = reinterpret_cast<uintptr_t>(f.to);
        const uintptr_t host = kUp ? from : to, device = kUp ? to : from;
        const uint64_t new_run = host != host_end;
        shape.bytes += f.bytes;
        ++shape.fragments;
        shape.host_runs += new_run;
        shape.joined += new_run | static_cast<uint64_t>(device != device_end);
        host_end = host + f.bytes;
        device_end = device + f.bytes;
        shape.pieces += ((f.bytes + rounding) >> piece_shift) + ((host_end - 1) >> boundary_shift) -
                        (host >> boundary_shift);
    }
    return shape;
}

}  // namespace

size_t StageCursor::next(std::byte* buffer, uint64_t stage_bytes, std::vector<StageRun>& runs,
                         std::span<CopyPiece> pieces) {
    runs.clear();
    const bool up = direction_ == CopyDirection::to_device;
    size_t n = 0;
    uint64_t filled = 0;
    while (n < pieces.size() && filled < stage_bytes) {
        skip_what_is_done();
        if (at_end()) break;
        const CopyFragment& f = fragments_[fragment_];
        std::byte* host = host_of(f, direction_) + at_;
        const uint64_t bytes =
            std::min({f.bytes - at_, uint64_t{limits_.piece_bytes}, stage_bytes - filled,
                      to_boundary(host, limits_.boundary_bytes)});
        if (buffer != nullptr && !add_to_run(runs, host, filled, bytes, limits_)) break;
        std::byte* device = device_of(f, direction_) + at_;
        std::byte* other = buffer != nullptr ? buffer + filled : host;
        pieces[n++] = {.from = up ? other : device,
                       .to = up ? device : other,
                       .at = at_,
                       .bytes = static_cast<uint32_t>(bytes),
                       .fragment = static_cast<uint32_t>(fragment_)};
        filled += bytes;
        at_ += bytes;
    }
    skip_what_is_done();
    done_bytes_ += filled;
    return n;
}

void StageCursor::skip_what_is_done() {
    while (!at_end() && at_ == fragments_[fragment_].bytes) {
        ++fragment_;
        at_ = 0;
    }
}

CopyShape shape_of(std::span<const CopyFragment> fragments, CopyDirection direction,
                   const StageLimits& limits) {
    return direction == CopyDirection::to_device ? shape_of<true>(fragments, limits)
                                                 : shape_of<false>(fragments, limits);
}

}  // namespace quire::kernels::cuda
