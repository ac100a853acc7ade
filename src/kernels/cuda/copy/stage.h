// How a copy between scattered pieces of a device and long runs of the host's memory is cut into
// stages: what a copy engine moves between the host and a staging buffer of the device, and which
// pieces a kernel relays between that buffer and where they belong. Pure host code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/copy/copy_plan.h"

namespace quire::kernels::cuda {

enum class CopyDirection : uint8_t { to_device, to_host };

// One copy of a copy engine: `bytes` at `host` and at `at` bytes of the staging buffer.
struct StageRun {
    std::byte* host = nullptr;
    uint64_t at = 0;
    uint64_t bytes = 0;

    friend bool operator==(const StageRun&, const StageRun&) = default;
};

struct StageLimits {
    uint32_t piece_bytes = 0;     // of a piece, at most: what a warp copies; of kCopyAlign
    uint32_t runs_max = 0;        // of a stage
    uint64_t boundary_bytes = 0;  // a power of two: a run crosses no multiple of it
};

// Goes through fragments in their order, a stage at a time. Fragments that follow each other on the
// host share runs; so they come in the order of their host addresses, if that matters.
class StageCursor {
 public:
    StageCursor(std::span<const CopyFragment> fragments, CopyDirection direction,
                const StageLimits& limits)
        : fragments_(fragments), direction_(direction), limits_(limits) {}

    bool at_end() const { return fragment_ == fragments_.size(); }

    // The next stage, of `stage_bytes` at most (a multiple of kCopyAlign), whose buffer begins at
    // `buffer`: its runs, and pieces into `pieces` until that is full. Without a buffer, pieces
    // that go straight, and no runs. Returns how many pieces; 0 at the end, or if `pieces` has no
    // place.
    size_t next(std::byte* buffer, uint64_t stage_bytes, std::vector<StageRun>& runs,
                std::span<CopyPiece> pieces);
    uint64_t done_bytes() const { return done_bytes_; }  // of all stages so far

 private:
    void skip_what_is_done();

    std::span<const CopyFragment> fragments_;
    CopyDirection direction_;
    StageLimits limits_;
    size_t fragment_ = 0;
    uint64_t at_ = 0;  // bytes of it that earlier stages have
    uint64_t done_bytes_ = 0;
};

// What decides how a copy is best done, and what it needs.
struct CopyShape {
    uint64_t bytes = 0;
    uint64_t fragments = 0;  // that are not empty
    uint64_t host_runs = 0;  // where fragments follow each other on the host
    uint64_t joined = 0;     // where they do on both sides
    uint64_t pieces = 0;     // of a StageCursor with one endless stage

    friend bool operator==(const CopyShape&, const CopyShape&) = default;
};

// Of the limits, piece_bytes (a power of two here) and boundary_bytes count.
CopyShape shape_of(std::span<const CopyFragment> fragments, CopyDirection direction,
                   const StageLimits& limits);

}  // namespace quire::kernels::cuda
