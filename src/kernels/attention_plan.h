// How a batch becomes work: items that threads take from the cursor, and where the workspace lies.
//
// A plan is a pure function of (shape, sequences, threads); every thread computes the same one. It
// never changes a result (see attention.h), only who computes it. Two kinds of items:
//   fat   rows of a prefill: (sequence, tile of positions, KV head), over all the keys they see
//   thin  at most kThinRows rows, e.g. a decode: (sequence, KV head, run of partitions); when a row
//   is
//         split over several items, each partition leaves a partial result in the workspace
// This file is compiled without ISA flags: it owns everything that touches std::span and
// std::atomic, so that the ISA files see plain data only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/attention.h"

namespace quire::kernels {

inline constexpr int32_t kRowBlock = 6;   // rows that share the registers of a micro-kernel
inline constexpr int32_t kThinRows = 64;  // rows (positions x heads of a group) of a thin sequence
inline constexpr int32_t kLaneSums = 16;  // partial sums of probabilities that a row carries

// One thread's scratch memory: `rows` rows of head_dim floats each.
struct AttnScratch {
    float* q = nullptr;          // scaled queries, per row block [head_dim][rows of the block]
    float* p = nullptr;          // [kRowBlock][kKeyTileTokens] scores, then probabilities
    float* k_tile = nullptr;     // [head_dim][kKeyTileTokens]
    float* v_tile = nullptr;     // [kKeyTileTokens][head_dim]
    float* max = nullptr;        // [rows]            the running partition
    float* sum = nullptr;        // [rows][kLaneSums]
    float* out = nullptr;        // [rows][head_dim]
    float* total_max = nullptr;  // [rows]          all partitions so far
    float* total_sum = nullptr;  // [rows]
    float* total_out = nullptr;  // [rows][head_dim]
    float* q_sum = nullptr;      // [rows]          with codes: sums of the scaled queries
    float* turns = nullptr;      // [rows][pairs][2] with AttnTurns: factors of cos and sin
};

// A unit of work. Row i of an item is head i % group of position first_pos + row_begin + i / group.
struct AttnItem {
    const AttnShape* shape = nullptr;
    const AttnSequence* sequence = nullptr;
    int32_t kv_head = 0;
    int32_t row_begin = 0;  // within the sequence
    int32_t n_positions = 0;
    int32_t partition_begin = 0;
    int32_t partition_end = 0;
    float* partials =
        nullptr;  // of partition_begin on; null: the item sees all and writes the output
    // Likely the thread's next item, or null: its first keys travel while this one's last are used.
    const AttnItem* following = nullptr;
    bool fetched = false;  // the item was the last one's `following`
    AttnScratch scratch;
};

// Floats that one partition of one item leaves: [rows][head_dim] out, max and sum of
// each row padded to 16 rows.
int64_t partial_floats(const AttnShape& shape, int32_t n_positions);

// First position any row of the item can see, and one past the last.
struct KeyRange {
    int32_t begin = 0;
    int32_t end = 0;
};
KeyRange visible_keys(const AttnShape& shape, int32_t pos_begin, int32_t n_positions);

// Where a tile of keys (64, aligned) changes from exact to codes.
struct TileKinds {
    int32_t exact_end = 0;     // rows at positions from here on read it as codes, ...
    int32_t exact_tokens = 0;  // ... but for its first tokens, which are sinks
};
TileKinds tile_kinds(const AttnCodes& codes, int32_t tile);

// What an ISA brings: functions over plain data.
struct ItemKernels {
    void (*attend)(const AttnItem& item);
    // Prefetches the first keys of an item of one row; others begin with arithmetic.
    void (*fetch)(const AttnItem& item);
    // `item` spans all partitions of a split (sequence, KV head); merges its partials into the
    // output.
    void (*merge)(const AttnItem& item);
    // Writes rows [row_begin, row_end) of `sequence`, all in one block, into the page of one KV
    // head.
    void (*store)(const AttnShape& shape, const StoreSequence& sequence, int32_t kv_head,
                  int32_t row_begin, int32_t row_end);
};

const char* check_shape(const AttnShape& shape);
size_t plan_workspace_bytes(const AttnShape& shape, std::span<const AttnSequence> sequences,
                            int n_threads);
void run_items(const AttnBatch& batch, int thread, int n_threads, const ItemKernels& kernels);
void fetch_items(const AttnBatch& batch, int thread, int n_threads, const ItemKernels& kernels);
void store_blocks(const AttnShape& shape, std::span<const StoreSequence> sequences, int thread,
                  int n_threads, const ItemKernels& kernels);

}  // namespace quire::kernels
