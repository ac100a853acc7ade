// What the units of a prefill share: how work is cut, what follows from widths, how shared memory
// and the workspace are divided. Host and device.
//
// An item is up to kPrefillRows query rows of a request and KV head: the heads of its group for one
// token after the other. A worker is a multiprocessor; sched/work_list.h's requests are items.
#pragma once

#include "kernels/cuda/attn/launch.h"
#include "kernels/cuda/attn/prefill.h"

namespace quire::kernels::cuda {

inline constexpr int32_t kPrefillGroups = 2;  // warpgroups that multiply, 64 rows each
inline constexpr int32_t kPrefillRows = 64 * kPrefillGroups;
inline constexpr int32_t kPrefillStagesMax = 3;

// Keys are multiplied a tile at a time, which warps bring by chunks of 32 tokens.
template <int kHeadDim, PagesHold kHold>
struct PrefillTile {
    static constexpr bool kCodes = kHold == PagesHold::codes;
    static constexpr int32_t kChunks = kCodes && kHeadDim > 128 ? 1 : 2;
    static constexpr int32_t kKeys = kChunks * kChunkKeys;
    // Of one side: of values by columns, tiles of 64 dimensions.
    static constexpr uint32_t kSideBytes = kKeys * ((kHeadDim + 63) / 64 * 64) * 2;
    static constexpr uint32_t kQueryBytes = 64 * kHeadDim * 2;  // of a warpgroup
    // Warps that bring each side, and a warp's slots of codes.
    static constexpr int32_t kBringers = kCodes && kHeadDim <= 128 ? 4 : 2;
    static constexpr int32_t kRawSlots = 2;
    static constexpr uint32_t kControlBytes = kBringers == 4 ? 2048 : 1024;
    static constexpr int32_t kThreads = 128 * kPrefillGroups + 64 * kBringers;
};

struct PrefillPlan {
    PrefillParams p;
    int32_t group = 1;  // query heads of a KV head
    int32_t items_max = 0;
    int32_t tile_keys = 0;
    int32_t workers = 0;
    float q_norm = 0;              // what queries are multiplied by
    float score_norm = 0;          // what scores over numbers are multiplied by
    float out_norm = 0;            // what sums are multiplied by
    uint32_t table_bytes = 0;      // of levels
    uint32_t stages = 0;           // tiles in shared memory, of each side
    uint32_t raw_bytes[2] = {};    // a slot of codes and scales of 32 tokens: of K, of V
    uint32_t raw_scales[2] = {};   // offset of scales in it
    uint32_t page_values = 0;      // offset of V in a page
    uint32_t page_scales[2] = {};  // of K, of V
    uint32_t block_stride = 0;
    uint32_t group_shift = 0;  // a page has 2^group_shift groups of 16 tokens
};

struct PrefillItem {
    int32_t request;
    int32_t first_row;
};

// An item of a KV head that workers share: the first of them says so.
struct PrefillShare {
    int32_t item, head;
    int32_t last_worker;  // below 0: nothing that begins with this worker goes on in another
};

QUIRE_HOST_DEVICE constexpr int32_t prefill_items_max(const PrefillParams& p) {
    const int64_t rows = int64_t{p.n_tokens} * (p.n_heads / p.kv_heads);
    return static_cast<int32_t>(rows / kPrefillRows) + p.n_requests;
}

QUIRE_HOST_DEVICE inline int32_t queries_of(const PrefillParams& p, int32_t request) {
    return (p.first_tokens[request + 1] - p.first_tokens[request]) * p.tokens_each;
}

// Which keys rows of an item see: those before end_of(row), and of these the last `window`.
struct ItemKeys {
    KeySpan span;           // of any row
    int32_t first_end = 0;  // of row 0 of the request
    int32_t rows = 0;       // of the request
    bool causal = true;

    QUIRE_HOST_DEVICE int32_t end_of(int32_t row, int32_t group) const {
        return causal ? first_end + row / group : first_end;
    }
};
QUIRE_HOST_DEVICE inline ItemKeys keys_of(const PrefillPlan& plan, const PrefillItem& item) {
    const PrefillParams& p = plan.p;
    ItemKeys keys;
    const int32_t n = queries_of(p, item.request), length = p.lengths[item.request];
    keys.rows = n * plan.group;
    keys.causal = p.causal;
    keys.first_end = p.causal ? length - n + 1 : length;
    if (length == 0 || n == 0) return keys;
    const int32_t last =
        item.first_row + kPrefillRows < keys.rows ? item.first_row + kPrefillRows : keys.rows;
    const int32_t begin = keys.end_of(item.first_row, plan.group) - p.window;
    keys.span = {p.window > 0 && begin > 0 ? begin : 0, keys.end_of(last - 1, plan.group)};
    return keys;
}

// A partial result: [rows][head_dim] sums, [rows] largest scores, [rows] sums of weights.
QUIRE_HOST_DEVICE constexpr int64_t prefill_partial_floats(int32_t head_dim) {
    return int64_t{kPrefillRows} * (head_dim + 2);
}
struct PrefillWorkspace {
    WorkList* list;
    int32_t* first_items;  // [n_requests + 1]
    PrefillItem* items;    // [items_max]
    int32_t* first_tiles;  // [items_max + 1]
    PrefillShare* shares;  // [workers]
    float* partials;       // [2 * workers]: work_list.h's slots
};
inline constexpr int64_t kPrefillHeadBytes = 128;
static_assert(sizeof(WorkList) <= kPrefillHeadBytes);
QUIRE_HOST_DEVICE constexpr int64_t prefill_counters(const PrefillParams& p, int32_t workers) {
    return (int64_t{p.n_requests} + 2 + int64_t{prefill_items_max(p)} * 3 + int64_t{workers} * 3 +
            31) /
           32 * 32;
}
QUIRE_HOST_DEVICE inline PrefillWorkspace divide_workspace(const PrefillPlan& plan) {
    auto* memory = static_cast<std::byte*>(plan.p.workspace);
    auto* items = reinterpret_cast<PrefillItem*>(memory + kPrefillHeadBytes);
    auto* first_tiles = reinterpret_cast<int32_t*>(items + plan.items_max);
    auto* first_items = first_tiles + plan.items_max + 1;
    auto* shares = reinterpret_cast<PrefillShare*>(first_items + plan.p.n_requests + 1);
    auto* counters = reinterpret_cast<int32_t*>(items);
    return {reinterpret_cast<WorkList*>(memory),
            first_items,
            items,
            first_tiles,
            shares,
            reinterpret_cast<float*>(counters + prefill_counters(plan.p, plan.workers))};
}

// The first kernel: items and the work list.
int list_prefill_items(const PrefillPlan& plan, CUstream_st* stream);

// Both kernels, for one head_dim and kind of pages.
template <int kHeadDim, PagesHold kHold>
int launch_prefill(const PrefillParams& params, int32_t blocks, CUstream_st* stream);

}  // namespace quire::kernels::cuda
