#include "kernels/attention_plan.h"

#include <algorithm>

#include "base/check.h"
#include "codec/hot/layout.h"

namespace quire::kernels {
namespace {

// Floats of query (and of output) that a fat item may hold: 96 KiB, so that an item's state stays
// in L2.
constexpr int32_t kItemFloats = 24576;
// Items per thread to aim at; more balance better, fewer share converted tiles better.
constexpr int32_t kItemsPerThread = 8;

constexpr int64_t round_up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}
constexpr int64_t div_up(int64_t n, int64_t by) {
    return (n + by - 1) / by;
}

int32_t group_heads(const AttnShape& shape) {
    return shape.n_heads / shape.n_kv_heads;
}

bool is_thin(const AttnShape& shape, const AttnSequence& s) {
    return s.n_rows == 1 || s.n_rows * group_heads(shape) <= kThinRows;
}

KeyRange partitions_of(const AttnShape& shape, int32_t pos_begin, int32_t n_positions) {
    const KeyRange keys = visible_keys(shape, pos_begin, n_positions);
    return {keys.begin / kPartitionTokens, (keys.end - 1) / kPartitionTokens + 1};
}

struct Plan {
    int32_t tile_positions = 1;       // positions of a fat item
    int32_t partitions_per_item = 1;  // of a thin item
    int32_t scratch_rows = 0;
    int32_t fat_items = 0;
    int32_t n_items = 0;
    int64_t scratch_floats = 0;  // of one thread
    int64_t partial_floats = 0;  // of all split sequences
};

// The items of one thin sequence.
struct Thin {
    KeyRange partitions;
    int32_t runs = 1;  // items per KV head
    bool split() const { return runs > 1; }
    int64_t record_floats = 0;  // of one partition
    int64_t head_floats() const {
        return split() ? record_floats * (partitions.end - partitions.begin) : 0;
    }
};

Thin thin_of(const AttnShape& shape, const AttnSequence& s, const Plan& plan) {
    Thin t;
    t.partitions = partitions_of(shape, s.first_pos, s.n_rows);
    t.runs = static_cast<int32_t>(
        div_up(t.partitions.end - t.partitions.begin, plan.partitions_per_item));
    t.record_floats = partial_floats(shape, s.n_rows);
    return t;
}

int64_t scratch_floats(const AttnShape& shape, int64_t rows) {
    const int64_t d = shape.head_dim;
    return round_up(3 * rows * d + kRowBlock * kKeyTileTokens + 2 * kKeyTileTokens * d +
                        rows * kLaneSums + 4 * round_up(rows, 16) +
                        2 * rows * shape.codes.turns.n_pairs,
                    16);
}

Plan make_plan(const AttnShape& shape, std::span<const AttnSequence> sequences, int n_threads) {
    Plan plan;
    const int32_t group = group_heads(shape);
    int64_t fat_rows = 0, thin_partitions = 0;
    int32_t thin_rows = 0;
    for (const AttnSequence& s : sequences) {
        if (is_thin(shape, s)) {
            const KeyRange p = partitions_of(shape, s.first_pos, s.n_rows);
            thin_partitions += p.end - p.begin;
            thin_rows = std::max(thin_rows, s.n_rows * group);
        } else {
            fat_rows += s.n_rows;
        }
    }
    const int32_t most = std::max(1, kItemFloats / shape.head_dim / group);
    const int64_t fair = div_up(fat_rows * shape.n_kv_heads, int64_t{kItemsPerThread} * n_threads);
    plan.tile_positions = static_cast<int32_t>(std::clamp<int64_t>(fair, std::min(4, most), most));
    plan.partitions_per_item = static_cast<int32_t>(std::max<int64_t>(
        1, thin_partitions * shape.n_kv_heads / (int64_t{kItemsPerThread} * n_threads)));
    if (n_threads == 1) plan.partitions_per_item = INT32_MAX;

    int64_t fat = 0, thin = 0;
    for (const AttnSequence& s : sequences) {
        if (!is_thin(shape, s)) {
            fat += div_up(s.n_rows, plan.tile_positions) * shape.n_kv_heads;
            continue;
        }
        const Thin t = thin_of(shape, s, plan);
        thin += int64_t{t.runs} * shape.n_kv_heads;
        plan.partial_floats += t.head_floats() * shape.n_kv_heads;
    }
    QUIRE_CHECK(fat + thin < INT32_MAX / 2, "too many attention work items in one batch");
    plan.fat_items = static_cast<int32_t>(fat);
    plan.n_items = static_cast<int32_t>(fat + thin);
    const int32_t fat_tile_rows = fat > 0 ? plan.tile_positions * group : 0;
    plan.scratch_rows =
        static_cast<int32_t>(round_up(std::max(fat_tile_rows, thin_rows), kRowBlock));
    plan.scratch_floats = scratch_floats(shape, plan.scratch_rows);
    return plan;
}

AttnScratch make_scratch(const AttnShape& shape, const Plan& plan, float* at) {
    AttnScratch s;
    const int64_t rows = plan.scratch_rows, d = shape.head_dim, padded_rows = round_up(rows, 16);
    auto take = [&at](int64_t floats) {
        float* here = at;
        at += floats;
        return here;
    };
    s.k_tile = take(kKeyTileTokens * d);
    s.v_tile = take(kKeyTileTokens * d);
    s.p = take(kRowBlock * kKeyTileTokens);
    s.q = take(rows * d);
    s.out = take(rows * d);
    s.total_out = take(rows * d);
    s.sum = take(rows * kLaneSums);
    s.max = take(padded_rows);
    s.total_max = take(padded_rows);
    s.total_sum = take(padded_rows);
    s.q_sum = take(padded_rows);
    s.turns = take(2 * rows * shape.codes.turns.n_pairs);
    return s;
}

// Turns tickets into items. A thread's tickets ascend, so the walk over sequences only goes
// forward.
class ItemWalker {
 public:
    ItemWalker(const AttnBatch& batch, const Plan& plan, float* partials,
               const AttnScratch& scratch)
        : batch_(batch), plan_(plan), partials_(partials), scratch_(scratch) {}

    AttnItem item(int32_t ticket) {
        for (;;) {
            const AttnSequence& s = batch_.sequences[sequence_];
            const int32_t n = items_of(s);
            if (ticket < first_ticket_ + n)
                return thin_phase_ ? thin_item(s, ticket - first_ticket_)
                                   : fat_item(s, ticket - first_ticket_);
            first_ticket_ += n;
            next_sequence(s);
        }
    }

    // Of the item drawn last: how many its head has, where that is in AttnBatch::finished, and the
    // whole head, to be merged.
    int32_t head_items() const { return thin_of(batch_.shape, sequence(), plan_).runs; }
    size_t head_index(const AttnItem& item) const {
        return sequence_ * static_cast<size_t>(batch_.shape.n_kv_heads) +
               static_cast<size_t>(item.kv_head);
    }
    AttnItem head(const AttnItem& item) const {
        const Thin t = thin_of(batch_.shape, sequence(), plan_);
        AttnItem whole = base_item(sequence(), item.kv_head, 0, sequence().n_rows, t.partitions);
        whole.partials = partials_ + partial_offset_ + item.kv_head * t.head_floats();
        return whole;
    }

 private:
    int32_t items_of(const AttnSequence& s) const {
        const AttnShape& shape = batch_.shape;
        if (is_thin(shape, s) != thin_phase_) return 0;
        return shape.n_kv_heads *
               (thin_phase_ ? thin_of(shape, s, plan_).runs
                            : static_cast<int32_t>(div_up(s.n_rows, plan_.tile_positions)));
    }

    void next_sequence(const AttnSequence& s) {
        if (thin_phase_ && is_thin(batch_.shape, s))
            partial_offset_ +=
                thin_of(batch_.shape, s, plan_).head_floats() * batch_.shape.n_kv_heads;
        if (++sequence_ < batch_.sequences.size()) return;
        QUIRE_CHECK(!thin_phase_, "attention ticket past the last item");
        thin_phase_ = true;
        sequence_ = 0;
    }

    const AttnSequence& sequence() const { return batch_.sequences[sequence_]; }

    AttnItem base_item(const AttnSequence& s, int32_t head, int32_t row, int32_t n,
                       KeyRange partitions) const {
        return {.shape = &batch_.shape,
                .sequence = &s,
                .kv_head = head,
                .row_begin = row,
                .n_positions = n,
                .partition_begin = partitions.begin,
                .partition_end = partitions.end,
                .partials = nullptr,
                .scratch = scratch_};
    }

    // The latest positions first: they see most keys, and a long item at the end would leave
    // threads idle.
    AttnItem fat_item(const AttnSequence& s, int32_t index) const {
        const int32_t tiles = static_cast<int32_t>(div_up(s.n_rows, plan_.tile_positions));
        const int32_t tile = tiles - 1 - index / batch_.shape.n_kv_heads;
        const int32_t row = tile * plan_.tile_positions;
        const int32_t n = std::min(plan_.tile_positions, s.n_rows - row);
        return base_item(s, index % batch_.shape.n_kv_heads, row, n,
                         partitions_of(batch_.shape, s.first_pos + row, n));
    }

    AttnItem thin_item(const AttnSequence& s, int32_t index) const {
        const Thin t = thin_of(batch_.shape, s, plan_);
        const int32_t head = index / t.runs, run = index % t.runs;
        if (!t.split()) return base_item(s, head, 0, s.n_rows, t.partitions);
        const int32_t begin = t.partitions.begin + run * plan_.partitions_per_item;
        const int32_t end = std::min(begin + plan_.partitions_per_item, t.partitions.end);
        AttnItem item = base_item(s, head, 0, s.n_rows, {begin, end});
        if (partials_ == nullptr) return item;  // to be fetched only
        item.partials = partials_ + partial_offset_ + head * t.head_floats() +
                        (begin - t.partitions.begin) * t.record_floats;
        return item;
    }

    const AttnBatch& batch_;
    const Plan& plan_;
    float* partials_;
    AttnScratch scratch_;
    bool thin_phase_ = false;
    size_t sequence_ = 0;
    int32_t first_ticket_ = 0;
    int64_t partial_offset_ = 0;
};

}  // namespace

int64_t partial_floats(const AttnShape& shape, int32_t n_positions) {
    const int64_t rows = int64_t{n_positions} * group_heads(shape);
    return rows * shape.head_dim + 2 * round_up(rows, 16);
}

KeyRange visible_keys(const AttnShape& shape, int32_t pos_begin, int32_t n_positions) {
    const int32_t begin = shape.window > 0 ? std::max(0, pos_begin - shape.window + 1) : 0;
    return {begin, pos_begin + n_positions};
}

TileKinds tile_kinds(const AttnCodes& codes, int32_t tile) {
    const int32_t sinks = std::clamp(codes.sink_tokens - tile, 0, kKeyTileTokens);
    if (!codes.any() || sinks == kKeyTileTokens) return {INT32_MAX, kKeyTileTokens};
    return {(tile / codes.span_tokens + 1) * codes.span_tokens, sinks};
}

namespace {

const char* check_turns(const AttnShape& shape) {
    const AttnTurns& t = shape.codes.turns;
    if (t.n_pairs == 0) return nullptr;
    if (t.n_pairs < 0 || t.n_pairs > shape.head_dim / 2)
        return "turned means must have at most head_dim / 2 pairs";
    if (t.pairs == nullptr || t.near == nullptr || t.far == nullptr)
        return "turned means need pairs and tables of angles";
    for (int32_t i = 0; i < shape.n_kv_heads * t.n_pairs; ++i) {
        const AttnPairMean& m = t.pairs[i];
        if (m.x < 0 || m.x >= shape.head_dim || m.y < 0 || m.y >= shape.head_dim || m.angle < 0 ||
            m.angle >= t.n_angles)
            return "a pair of a turned mean is outside the head or its tables";
    }
    return nullptr;
}

const char* check_codes(const AttnShape& shape) {
    const AttnCodes& c = shape.codes;
    if (c.k_bits == 0 && c.v_bits == 0) return nullptr;
    if (std::min(c.k_bits, c.v_bits) < codec::hot::kMinBits ||
        std::max(c.k_bits, c.v_bits) > codec::hot::kMaxBits)
        return "codes must have 2 to 8 bits";
    if (c.sink_tokens < 0 || c.sink_tokens % shape.block_tokens != 0)
        return "sink_tokens must be a multiple of block_tokens";
    if (c.span_tokens < 1 || c.span_tokens % shape.block_tokens != 0 ||
        c.span_tokens % kKeyTileTokens != 0)
        return "span_tokens must be a multiple of block_tokens and of 64";
    const codec::hot::Shape page = {c.k_bits, c.v_bits, static_cast<uint32_t>(shape.head_dim),
                                    static_cast<uint32_t>(shape.block_tokens)};
    if (c.page_bytes < static_cast<int64_t>(codec::hot::page_bytes(page)))
        return "page_bytes of codes must hold a page of one block and one KV head";
    return check_turns(shape);
}

}  // namespace

const char* check_shape(const AttnShape& shape) {
    if (shape.head_dim < 16 || shape.head_dim > 256 || shape.head_dim % 16 != 0)
        return "head_dim must be a multiple of 16 from 16 to 256";
    if (shape.block_tokens < 16 || shape.block_tokens > 256 || shape.block_tokens % 16 != 0)
        return "block_tokens must be a multiple of 16 from 16 to 256";
    if (shape.n_kv_heads < 1 || shape.n_heads < 1 || shape.n_heads % shape.n_kv_heads != 0)
        return "n_heads must be a positive multiple of n_kv_heads";
    if (shape.element != Element::f16 && shape.element != Element::bf16)
        return "pages must be f16 or bf16";
    if (shape.page_bytes < int64_t{4} * shape.head_dim * shape.block_tokens)
        return "page_bytes must hold K and V of one block and one KV head";
    if (shape.window < 0 || !(shape.softcap >= 0.0f))
        return "window and softcap must not be negative";
    return check_codes(shape);
}

size_t plan_workspace_bytes(const AttnShape& shape, std::span<const AttnSequence> sequences,
                            int n_threads) {
    const Plan plan = make_plan(shape, sequences, n_threads);
    return static_cast<size_t>(plan.scratch_floats * n_threads + plan.partial_floats) *
           sizeof(float);
}

namespace {

void merge_if_last(const AttnBatch& batch, const ItemWalker& walker, const AttnItem& item,
                   const ItemKernels& kernels) {
    std::atomic<int32_t>& finished = batch.finished[walker.head_index(item)].n;
    // Acquire and release: the last one sees the others' partials.
    if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 < walker.head_items()) return;
    finished.store(0, std::memory_order_relaxed);
    kernels.merge(walker.head(item));
}

}  // namespace

void run_items(const AttnBatch& batch, int thread, int n_threads, const ItemKernels& kernels) {
    const Plan plan = make_plan(batch.shape, batch.sequences, n_threads);
    float* base = reinterpret_cast<float*>(batch.workspace.data());
    const AttnScratch scratch =
        make_scratch(batch.shape, plan, base + thread * plan.scratch_floats);
    ItemWalker walker(batch, plan, base + n_threads * plan.scratch_floats, scratch);
    QUIRE_CHECK(plan.partial_floats == 0 ||
                    batch.finished.size() >=
                        batch.sequences.size() * static_cast<size_t>(batch.shape.n_kv_heads),
                "split rows need a counter for each sequence and KV head");
    // A thread's first ticket is its own number, so that it can have been fetched.
    int32_t expected = -1;
    for (int32_t ticket = thread; ticket < plan.n_items;) {
        AttnItem item = walker.item(ticket);
        item.fetched = ticket == expected;
        // Items are alike, so that threads take turns.
        expected = ticket == thread
                       ? n_threads + thread
                       : batch.cursor->load(std::memory_order_relaxed) + 2 * n_threads - 1;
        AttnItem following;
        if (expected < plan.n_items) {
            following = ItemWalker(walker).item(expected);
            item.following = &following;
        }
        kernels.attend(item);
        if (item.partials != nullptr) merge_if_last(batch, walker, item, kernels);
        ticket = n_threads + batch.cursor->fetch_add(1, std::memory_order_relaxed);
    }
}

void fetch_items(const AttnBatch& batch, int thread, int n_threads, const ItemKernels& kernels) {
    const Plan plan = make_plan(batch.shape, batch.sequences, n_threads);
    if (thread < plan.n_items)
        kernels.fetch(ItemWalker(batch, plan, nullptr, {}).item(thread));
}

void store_blocks(const AttnShape& shape, std::span<const StoreSequence> sequences, int thread,
                  int n_threads, const ItemKernels& kernels) {
    int64_t unit = 0;  // (sequence, block, KV head): a page is written by one thread only
    for (const StoreSequence& s : sequences) {
        for (int32_t row = 0; row < s.n_rows;) {
            const int32_t in_block = (s.first_pos + row) % shape.block_tokens;
            const int32_t end = std::min(s.n_rows, row + shape.block_tokens - in_block);
            for (int32_t h = 0; h < shape.n_kv_heads; ++h)
                if (unit++ % n_threads == thread) kernels.store(shape, s, h, row, end);
            row = end;
        }
    }
}

}  // namespace quire::kernels
