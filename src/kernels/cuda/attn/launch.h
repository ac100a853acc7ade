// What the units of a decode share: how work is cut, and who launches what. Host and device.
#pragma once

#include <atomic>

#include "kernels/attention_math.h"
#include "kernels/cuda/attn/decode.h"
#include "kernels/cuda/codec/chunk.h"
#include "kernels/cuda/sched/work_list.h"

namespace quire::kernels::cuda {

inline constexpr size_t kSharedMax = 227 * 1024;  // of a block
inline constexpr int kRowsOfTile = 8;
inline constexpr auto kChunkKeys = static_cast<int32_t>(kChunkTokens);

// Registers of a lane for the sums of a warp's rows.
QUIRE_HOST_DEVICE constexpr int32_t sum_registers(int32_t head_dim, int32_t row_tiles) {
    return (head_dim + 63) / 64 * 16 * row_tiles;
}
// Warps of a block: as many as find registers.
QUIRE_HOST_DEVICE constexpr int32_t decode_warps(int32_t head_dim, int32_t row_tiles) {
    const int32_t sums = sum_registers(head_dim, row_tiles);
    return sums <= 32 ? 16 : sums <= 64 ? 12 : 8;
}
// The same over pages of 8-bit floats.
QUIRE_HOST_DEVICE constexpr int32_t float_warps(int32_t head_dim, int32_t row_tiles) {
    return row_tiles >= 4 ? 8 : decode_warps(head_dim, row_tiles);
}
// The same over pages of numbers, whose slots leave room for fewer.
QUIRE_HOST_DEVICE constexpr int32_t number_warps(int32_t head_dim, int32_t row_tiles) {
    return sum_registers(head_dim, row_tiles) <= 16 ? 16 : 8;
}
// A dimension of K of two chunks is a whole line of memory in blocks of 64 tokens.
QUIRE_HOST_DEVICE constexpr int32_t number_units(int32_t head_dim, int32_t row_tiles) {
    return sum_registers(head_dim, row_tiles) <= 32 ? 2 : 1;
}
// Chunks that a warp works on at once: while one waits the other does not. More warps are better.
QUIRE_HOST_DEVICE constexpr int32_t decode_units(int32_t head_dim, int32_t row_tiles) {
    return sum_registers(head_dim, row_tiles) <= 16 ? 2 : 1;
}

// From which pages keys come, and how their slots and operands lie: by codec/chunk.h those of codes
// and of 8-bit floats (floats.cuh), in order those of 16-bit numbers (numbers.cuh).
struct PageCodes {
    static constexpr bool kCodes = true, kNumbers = false;
    static constexpr int32_t warps(int32_t d, int32_t tiles) { return decode_warps(d, tiles); }
    static constexpr int32_t units(int32_t d, int32_t tiles) { return decode_units(d, tiles); }
};
struct PageFp8 {
    static constexpr bool kCodes = false, kNumbers = false;
    static constexpr int32_t warps(int32_t d, int32_t tiles) { return float_warps(d, tiles); }
    static constexpr int32_t units(int32_t d, int32_t tiles) { return decode_units(d, tiles); }
};
struct PageNumbers {
    static constexpr bool kCodes = false, kNumbers = true;
    static constexpr int32_t warps(int32_t d, int32_t tiles) { return number_warps(d, tiles); }
    static constexpr int32_t units(int32_t d, int32_t tiles) { return number_units(d, tiles); }
};
// Calls run(pages) for what the pages of p are.
template <class Run>
constexpr auto with_pages(const DecodeParams& p, Run run) {
    if (p.pages_hold == PagesHold::codes) return run(PageCodes{});
    return is_fp8(p.pages_hold) ? run(PageFp8{}) : run(PageNumbers{});
}

// Tiles of query rows that a warp holds at once: as far as registers last. Rows above that are
// attended to in another pass over the keys.
QUIRE_HOST_DEVICE constexpr int32_t row_tiles_max(int32_t head_dim) {
    return head_dim == 64 || head_dim == 128 ? 4 : head_dim == 192 ? 1 : 2;
}
QUIRE_HOST_DEVICE constexpr int32_t row_tiles(int32_t head_dim, int32_t rows) {
    const int32_t needed = rows <= kRowsOfTile ? 1 : rows <= 2 * kRowsOfTile ? 2 : 4;
    return needed < row_tiles_max(head_dim) ? needed : row_tiles_max(head_dim);
}
QUIRE_HOST_DEVICE constexpr int32_t rows_of_head(const DecodeParams& p) {
    return p.n_queries * (p.n_heads / p.kv_heads);
}
QUIRE_HOST_DEVICE constexpr int32_t rows_at_once(const DecodeParams& p) {
    return kRowsOfTile * row_tiles(p.head_dim, rows_of_head(p));
}
// Times that the keys of a KV head are read.
QUIRE_HOST_DEVICE constexpr int32_t passes_of(const DecodeParams& p) {
    return (rows_of_head(p) + rows_at_once(p) - 1) / rows_at_once(p);
}

// Division of a row by the query heads of a KV head: exact for kDecodeRowsMax rows.
QUIRE_HOST_DEVICE constexpr uint32_t reciprocal_of(uint32_t group) {
    return ((1u << 22) + group - 1) / group;
}
QUIRE_HOST_DEVICE constexpr int32_t query_of_row(int32_t row, uint32_t reciprocal) {
    return static_cast<int32_t>(static_cast<uint32_t>(row) * reciprocal >> 22);
}

// What a score is multiplied by: to octaves, or to what a soft cap takes.
template <class Params>
QUIRE_HOST_DEVICE constexpr float score_unit(const Params& p) {
    return p.softcap > 0 ? p.scale / p.softcap : p.scale * kLog2e;
}

QUIRE_HOST_DEVICE inline KeySpan keys_of(const DecodeParams& p, int32_t request) {
    return span_of(p.lengths[request], p.all_keys ? 1 : p.n_queries, p.window);
}

// What follows from widths, and is worked out once.
struct DecodePlan {
    DecodeParams p;
    int32_t passes = 1;
    int32_t rows = 0;               // of a KV head
    int32_t group = 1;              // query heads of a KV head
    uint32_t per_group = 0;         // reciprocal_of(group)
    int32_t warps = 0;              // of a block, that have slots
    int32_t tile_tokens = 0;        // of the work list
    int32_t workers_max = 0;        // in all
    bool codes = true;              // and rows are rotated
    bool has_token_scales = false;  // of 8-bit floats
    float v_octaves = 0;            // units of scales of values count from 2^-v_octaves
    float q_norm = 0;               // what queries are multiplied by
    float score_norm = 0;           // what scores over floats are multiplied by
    float out_norm = 0;             // what sums are multiplied by
    uint32_t table_bytes = 0;       // of levels
    uint32_t slot_bytes = 0;
    uint32_t slot_values = 0;  // offset of V in a slot
    uint32_t slot_scales = 0;
    uint32_t page_values = 0;  // offset of V in a page
    uint32_t page_k_scales = 0;
    uint32_t page_v_scales = 0;
    uint32_t block_stride = 0;
    uint32_t group_shift = 0;  // a page has 2^group_shift groups of 16 tokens
};

// Lets a kernel have as much dynamic shared memory as there is, and makes sure that it begins where
// the kernel takes it to. Asking the driver takes longer than a short decode: once for every device
// is enough, and `done` says for which. Returns the CUDA runtime's error code, 0 for none.
int allow_shared(const void* kernel, std::atomic<uint64_t>* done);

// Both kernels, for one head_dim, number of row tiles and kind of pages.
template <int kHeadDim, int kTiles, class Pages>
int launch_decode(const DecodeParams& params, int32_t blocks, CUstream_st* stream);

}  // namespace quire::kernels::cuda
