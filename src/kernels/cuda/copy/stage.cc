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

}  // namespace

size_t StageCursor::next(std::byte* buffer, std::vector<StageRun>& runs,
                         std::span<CopyPiece> pieces) {
    runs.clear();
    const bool up = direction_ == CopyDirection::to_device;
    size_t n = 0;
    uint64_t filled = 0;
    while (n < pieces.size() && filled < limits_.stage_bytes) {
        skip_what_is_done();
        if (at_end()) break;
        const CopyFragment& f = fragments_[fragment_];
        std::byte* host = host_of(f, direction_) + at_;
        const uint64_t bytes =
            std::min({f.bytes - at_, uint64_t{limits_.piece_bytes}, limits_.stage_bytes - filled,
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
    const int piece_shift = std::countr_zero(limits.piece_bytes);
    const int boundary_shift = std::countr_zero(limits.boundary_bytes);
    CopyShape shape;
    const std::byte *host_end = nullptr, *device_end = nullptr;
    for (const CopyFragment& f : fragments) {
        if (f.bytes == 0) continue;
        const std::byte* host = host_of(f, direction);
        const std::byte* device = device_of(f, direction);
        const auto first = reinterpret_cast<uintptr_t>(host);
        shape.bytes += f.bytes;
        ++shape.fragments;
        shape.host_runs += host != host_end;
        shape.joined += host != host_end || device != device_end;
        shape.pieces += (f.bytes + limits.piece_bytes - 1) >> piece_shift;
        shape.pieces += ((first + f.bytes - 1) >> boundary_shift) - (first >> boundary_shift);
        host_end = host + f.bytes;
        device_end = device + f.bytes;
    }
    return shape;
}

}  // namespace quire::kernels::cuda
