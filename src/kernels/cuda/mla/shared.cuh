// The shared memory of a block that decodes MLA, and who may touch what when.
//
// Warpgroups 0 and 1 multiply, warpgroup 2 brings keys. Two tiles of 64 keys are there at a time,
// in a buffer each: in a round warpgroup 0 makes the weights of buffer 0, warpgroup 1 those of
// buffer 1, and each adds the values of both to its half of the result: warpgroup h has numbers
// 256h to 256h + 255, pieces 4h to 4h + 3 of the buffers. The last piece of a buffer holds rotary
// numbers that are no values (of v4 none): weights take their place when the scores are there.
#pragma once

#include <new>

#include "kernels/cuda/mla/launch.h"
#include "kernels/cuda/ptx/bulk.cuh"
#include "kernels/cuda/ptx/cluster.cuh"
#include "kernels/cuda/ptx/warpgroup.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace quire::kernels::cuda {

// Who brings keys, of which kind.
enum class MlaSource { tiles, lists, v32, v4 };

inline constexpr int kMlaPieces = 9;  // of a buffer, of 64 numbers of a row each
// Pieces of a row.
template <MlaSource kSource>
inline constexpr int kMlaRowPieces = kSource == MlaSource::v4 ? 8 : 9;
inline constexpr int kMlaThreads = 384;
inline constexpr int kMlaMathThreads = 256;

// Segments of the block, for one group of threads: kept here since registers are scarce. One thread
// advances; the others of the group read what it found after a barrier.
struct SharedWalk {
    alignas(SegmentWalker) std::byte walker[sizeof(SegmentWalker)];
    Segment segment;
    int32_t more;
    int32_t n_keys;  // of the segment's request

    __device__ void begin(const WorkList& list, int32_t worker) {
        new (walker) SegmentWalker(list, worker);
    }
    __device__ void advance() {
        more = reinterpret_cast<SegmentWalker*>(walker)->next(&segment) ? 1 : 0;
    }
};

struct MlaShared {
    std::byte q[kMlaPieces][kTileBytes];
    std::byte k[2][kMlaPieces][kTileBytes];
    Barrier full[2][kMlaPieces];
    // [buffer][half]: who multiplies with that half is done with it. The last piece goes with the
    // half of the warpgroup that did not make the weights.
    Barrier empty[2][2];
    uint64_t left_out[2];          // bit i: key i of the buffer's list is none
    float top[2][64];              // of each row, after the buffer's tile
    float sum[2][64];              // of weights, by each warpgroup
    int64_t out_at[kMlaTileRows];  // of each row, in numbers
    int32_t row_tile;
    int32_t n_keys;
    int32_t is_last;
    // Of a segment that is not whole: how many workers have parts of its request and row tile,
    // which of them this is, where their partial results are.
    int32_t parts, part;
    int64_t part_stride;   // in floats, between slots
    float* first_partial;  // the first worker's slot 0
    SharedWalk multiplied;
    SharedWalk brought[4];  // by each warp
};

// Barriers of the block, beside 0.
enum MlaBarrier : int { kWeightsOf0 = 1, kWeightsOf1 = 2, kMath = 3, kOwn0 = 4, kOwn1 = 5 };

// Row of the tile that is a lane's: i is 0 or 1.
__device__ __forceinline__ int mla_lane_row(int i) {
    const int thread = thread_now();
    return thread / 32 % 4 * 16 + thread % 32 / 4 + 8 * i;
}

// The block's place in its team, and the list of what teams work on: a "head" of the list is a team
// of row tiles.
struct MlaPlace {
    WorkList list;
    int32_t team, member, worker;

    __device__ MlaPlace(const MlaParams& p, const MlaWorkspace& work) {
        team = mla_team(p);
        list = {work.first_tiles, p.n_requests, mla_row_tiles(p) / team, blocks_now() / team};
        worker = block_now() / team;
        member = block_now() % team;
    }
    __device__ int32_t row_tile(const Segment& segment) const {
        return segment.head * team + member;
    }
};

}  // namespace quire::kernels::cuda
