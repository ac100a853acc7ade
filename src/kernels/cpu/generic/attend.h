// One work item: some rows of one KV head over a run of partitions, flash style.
//
// For each tile of 64 keys: scores of all rows, running softmax, weighted sum of V. A few rows of
// one position read the pages directly; more rows share one float32 copy of the tile in scratch.
#pragma once

#include "base/prefetch.h"
#include "kernels/cpu/generic/scales.h"
#include "kernels/cpu/generic/tiles.h"
#include "kernels/cpu/generic/turns.h"

namespace quire::kernels::generic {

// A tile of 64 keys takes 256 bytes a dimension: up to 16 KiB of the next one go into L1.
inline constexpr int kNearHeadDim = 64;

template <class V, class Reader>
class ItemRunner {
 public:
    using f32 = typename V::f32;
    using Group = typename Reader::Group;

    explicit ItemRunner(const AttnItem& item)
        : item_(item),
          shape_(*item.shape),
          scratch_(item.scratch),
          reader_(shape_),
          group_(shape_.n_heads / shape_.n_kv_heads),
          rows_(item.n_positions * group_),
          first_position_(item.sequence->first_pos + item.row_begin),
          cap_(shape_.softcap > 0.0f ? shape_.softcap * kLog2e : 0.0f),
          keys_(visible_keys(shape_, first_position_, item.n_positions)),
          direct_(item.n_positions == 1 && rows_ <= kRowBlock) {}

    void attend() {
        if (rows_ == 0) return;
        if (direct_ && !item_.fetched) fetch_first_tile();
        pack_queries();
        clear_total();
        for (int p = item_.partition_begin; p < item_.partition_end; ++p) {
            reduce_partition(p * kPartitionTokens);
            if (item_.partials == nullptr)
                add_partition_to_total();
            else
                leave_partial(p);
        }
        if (item_.partials == nullptr) write_output();
    }

    void fetch() const {
        if (direct_) fetch_first_tile();
    }

    void merge() {
        merge_partials();
        write_output();
    }

 protected:
    struct Partial {
        float* out;
        float* max;
        float* sum;
    };

    Partial partial(int partition) const {
        const int64_t d = shape_.head_dim;
        float* at = item_.partials +
                    (partition - item_.partition_begin) * partial_floats(shape_, item_.n_positions);
        return {at, at + rows_ * d, at + rows_ * d + (rows_ + 15) / 16 * 16};
    }

    int position(int row) const { return first_position_ + row / group_; }
    int block_rows(int first_row) const {
        return rows_ - first_row < kRowBlock ? rows_ - first_row : kRowBlock;
    }
    // The query or output vector of a row.
    int64_t vector_offset(int row, int64_t row_stride) const {
        return (item_.row_begin + row / group_) * row_stride +
               int64_t{item_.kv_head * group_ + row % group_} * shape_.head_dim;
    }

    // Scaled queries, each block of rows transposed so that a dimension's factors lie side by side.
    void pack_queries() {
        const AttnSequence& s = *item_.sequence;
        const float scale = cap_ > 0.0f ? shape_.scale / shape_.softcap : shape_.scale * kLog2e;
        for (int first = 0; first < rows_; first += kRowBlock) {
            const int n = block_rows(first);
            float* packed = scratch_.q + int64_t{first} * shape_.head_dim;
            for (int r = 0; r < n; ++r) {
                const float* q = s.q + vector_offset(first + r, s.q_row_stride);
                for (int d = 0; d < shape_.head_dim; ++d) packed[d * n + r] = q[d] * scale;
            }
        }
    }

    void merge_partials() {
        clear_total();
        for (int p = item_.partition_begin; p < item_.partition_end; ++p) {
            const Partial part = partial(p);
            merge_rows<V>(part.max, part.sum, part.out, scratch_.total_max, scratch_.total_sum,
                          scratch_.total_out, rows_, shape_.head_dim);
        }
    }

    void clear_total() {
        for (int r = 0; r < rows_; ++r) {
            scratch_.total_max[r] = kMinusInf;
            scratch_.total_sum[r] = 0.0f;
        }
        for (int64_t i = 0; i < int64_t{rows_} * shape_.head_dim; ++i) scratch_.total_out[i] = 0.0f;
    }

    void clear_partition() {
        for (int r = 0; r < rows_; ++r) scratch_.max[r] = kMinusInf;
        for (int i = 0; i < rows_ * kLaneSums; ++i) scratch_.sum[i] = 0.0f;
        for (int64_t i = 0; i < int64_t{rows_} * shape_.head_dim; ++i) scratch_.out[i] = 0.0f;
    }

    void reduce_partition(int begin) {
        clear_partition();
        const int end = begin + kPartitionTokens < keys_.end ? begin + kPartitionTokens : keys_.end;
        int tile = keys_.begin > begin ? keys_.begin / kKeyTileTokens * kKeyTileTokens : begin;
        for (; tile < end; tile += kKeyTileTokens) {
            const PageTile<V, Reader> pages = find_tile(tile);
            if (direct_) {
                attend_rows({tile, 0, rows_, false}, pages, [](int) {});
                continue;
            }
            const bool poisoned = convert(tile, pages, keys_);
            attend_rows({tile, 0, rows_, poisoned}, converted(),
                        [&](int first) { fetch_next_tile(pages, first); });
        }
    }

    // Groups that no row sees (their slab may be absent) borrow a visible group's pages: their
    // scores are masked and their V is never read.
    void find_groups(const AttnItem& item, KeyRange keys, int tile, Group* groups) const {
        const int seen_begin = keys.begin > tile ? keys.begin : tile;
        for (int g = 0; g < kTileGroups; ++g) {
            int key = tile + g * kGroupKeys;
            if (key + kGroupKeys <= keys.begin || key >= keys.end)
                key = seen_begin / kGroupKeys * kGroupKeys;
            const std::byte* slab = item.sequence->slabs[key / shape_.block_tokens];
            groups[g] = reader_.group(slab + shape_.layer_offset + item.kv_head * shape_.page_bytes,
                                      key % shape_.block_tokens);
        }
    }

    // The tile where an item starts, or -1 where it sees nothing.
    static int first_tile(const AttnItem& item, KeyRange keys) {
        const int begin = item.partition_begin * kPartitionTokens;
        const int tile = keys.begin > begin ? keys.begin / kKeyTileTokens * kKeyTileTokens : begin;
        return tile < keys.end ? tile : -1;
    }

    // The first tile of the item that follows, or what is in use already.
    void find_following(const PageTile<V, Reader>& pages, Group* groups) const {
        const AttnItem* next = item_.following;
        if (next != nullptr) {
            const KeyRange keys = visible_keys(shape_, next->sequence->first_pos + next->row_begin,
                                               next->n_positions);
            const int tile = first_tile(*next, keys);
            if (tile >= 0) return find_groups(*next, keys, tile, groups);
        }
        for (int g = 0; g < kTileGroups; ++g) groups[g] = pages.groups[g];
    }

    PageTile<V, Reader> find_tile(int tile) const {
        PageTile<V, Reader> pages{reader_, {}, {}, shape_.head_dim <= kNearHeadDim};
        find_groups(item_, keys_, tile, pages.groups);
        const int next = tile + kKeyTileTokens;
        const int item_end = item_.partition_end * kPartitionTokens;
        if (next < keys_.end && next < item_end)
            find_groups(item_, keys_, next, pages.next);
        else
            find_following(pages, pages.next);
        return pages;
    }

    // Its lines travel while queries are packed.
    void fetch_first_tile() const {
        const int tile = first_tile(item_, keys_);
        if (tile < 0) return;
        PageTile<V, Reader> pages{reader_, {}, {}, shape_.head_dim <= kNearHeadDim};
        find_groups(item_, keys_, tile, pages.next);
        for (int d = 0; d < shape_.head_dim; d += 2) pages.template prefetch_k<kTileGroups>(0, d);
        for (int key = 0; key < kKeyTileTokens; ++key)
            for (int d = 0; d < shape_.head_dim; d += 32)
                pages.template prefetch_v<32>(key / kGroupKeys, key % kGroupKeys, d);
    }

    TileRange range_of(int position, int tile) const {
        return {shape_.window > 0 ? position - shape_.window + 1 - tile : 0, position + 1 - tile};
    }

    // Copies what the item sees of a tile, of `keys`. A V that is not finite must meet only rows
    // that see its key: true, when rows must be taken one at a time, each over its own keys.
    bool convert(int tile, const PageTile<V, Reader>& pages, KeyRange keys) const {
        const int begin = keys.begin > tile ? keys.begin - tile : 0;
        const int end = keys.end - tile < kKeyTileTokens ? keys.end - tile : kKeyTileTokens;
        for (int d = 0; d < shape_.head_dim; ++d)
            for (int i = 0; i < kKeyTileTokens; i += V::kLanes)
                V::store(scratch_.k_tile + d * kKeyTileTokens + i,
                         pages.k(i / kGroupKeys, d, i % kGroupKeys));
        f32 poison = V::zero();
        for (int g = begin / kGroupKeys; g * kGroupKeys < end; ++g) {
            const int base = g * kGroupKeys;
            const int last = end - base < kGroupKeys ? end - base : kGroupKeys;
            for (int key = begin > base ? begin - base : 0; key < last; ++key) {
                float* to = scratch_.v_tile + int64_t{base + key} * shape_.head_dim;
                for (int d = 0; d < shape_.head_dim; d += V::kLanes) {
                    const f32 v = pages.v(g, key, d);
                    poison = V::fma(v, V::zero(), poison);
                    V::store(to + d, v);
                }
            }
        }
        return V::any_nan(poison);
    }
    FloatTile<V> converted() const { return {scratch_.k_tile, scratch_.v_tile, shape_.head_dim}; }

    // Rows [row_begin, row_end) of the item against one tile.
    struct TileRows {
        int tile;
        int row_begin;
        int row_end;
        bool one_by_one;
    };

    // Calls fetch(first row) before each block of rows.
    template <class Tile, class Fetch>
    void attend_rows(const TileRows& rows, const Tile& source, Fetch fetch) const {
        for (int first = rows.row_begin / kRowBlock * kRowBlock; first < rows.row_end;
             first += kRowBlock) {
            fetch(first);
            // clang-format off
            switch (block_rows(first)) {
                case 1: attend_block<1>(rows, first, source); break;
                case 2: attend_block<2>(rows, first, source); break;
                case 3: attend_block<3>(rows, first, source); break;
                case 4: attend_block<4>(rows, first, source); break;
                case 5: attend_block<5>(rows, first, source); break;
                default: attend_block<6>(rows, first, source); break;
            }
            // clang-format on
        }
    }

    // A share of the next tile's lines with each block of rows, so that its conversion finds them
    // in L2.
    void fetch_next_tile(const PageTile<V, Reader>& pages, int first) const {
        const int last = first + kRowBlock < rows_ ? first + kRowBlock : rows_;
        const int d_begin = shape_.head_dim * first / rows_ & ~1;
        const int d_end = shape_.head_dim * last / rows_ & ~1;
        for (int d = d_begin; d < d_end; d += 2) pages.template prefetch_k<kTileGroups>(0, d);
        for (int key = kKeyTileTokens * first / rows_; key < kKeyTileTokens * last / rows_; ++key)
            for (int d = 0; d < shape_.head_dim; d += 32)
                pages.template prefetch_v<32>(key / kGroupKeys, key % kGroupKeys, d);
    }

    static TileRange clamp(TileRange r) {
        return {r.begin > 0 ? r.begin : 0, r.end < kKeyTileTokens ? r.end : kKeyTileTokens};
    }

    // Row blocks stream through L1, whose prefetcher notices too late.
    void fetch_next_block(int first) const {
        const int64_t d = shape_.head_dim, begin = first * d, n = block_rows(first) * d;
        for (int64_t i = begin; i < begin + n; i += 16) {
            prefetch_l1(scratch_.q + i);
            prefetch_l1(scratch_.out + i);
        }
    }

    // Rows of the block that are not in `rows` see nothing, which changes no bit of theirs.
    template <int R, class Tile>
    void attend_block(const TileRows& rows, int first, const Tile& source) const {
        TileRange ranges[R];
        int p = position(first), head = first % group_;
        for (int r = 0; r < R; ++r) {
            const bool member = first + r >= rows.row_begin && first + r < rows.row_end;
            ranges[r] = member ? range_of(p, rows.tile) : TileRange{0, 0};
            if (++head == group_) head = 0, ++p;
        }
        const int lowest = rows.row_begin > first ? rows.row_begin - first : 0;
        const int highest = rows.row_end - first < R ? rows.row_end - first - 1 : R - 1;
        if (ranges[highest].end <= 0 || ranges[lowest].begin >= kKeyTileTokens) return;
        const int64_t d = shape_.head_dim;
        fetch_next_block(first + R);
        source.template score<R>(scratch_.q + first * d, shape_.head_dim, scratch_.p);
        if constexpr (Tile::kScaled) {
            scale_scores<V, R>(source.scales, scratch_.q_sum + first, scratch_.p);
            const AttnTurns& turns = shape_.codes.turns;
            if (turns.n_pairs > 0)
                add_turns<V, R>(turns, item_.kv_head, rows.tile, source.scales.first_coded,
                                scratch_.turns + int64_t{2} * first * turns.n_pairs, scratch_.p);
        }
        f32 correction[R];
        float excess[R];
        for (int r = 0; r < R; ++r) {
            float* s = scratch_.p + r * kKeyTileTokens;
            correction[r] = softmax_row<V>(s, ranges[r], cap_, scratch_.max + first + r,
                                           scratch_.sum + (first + r) * kLaneSums);
            if constexpr (Tile::kScaled) excess[r] = scale_probabilities<V>(source.scales, s);
        }
        float* out = scratch_.out + first * d;
        if (rows.one_by_one) {
            for (int r = 0; r < R; ++r) {
                const TileRange keys = clamp(ranges[r]);
                source.template weigh<1>(scratch_.p + r * kKeyTileTokens, keys.begin, keys.end,
                                         correction + r, out + r * d, shape_.head_dim);
            }
        } else {
            const TileRange keys = clamp({ranges[lowest].begin, ranges[highest].end});
            source.template weigh<R>(scratch_.p, keys.begin, keys.end, correction, out,
                                     shape_.head_dim);
        }
        if constexpr (Tile::kScaled)
            if (source.scales.has_excess) take_off<V, R>(excess, out, shape_.head_dim);
    }

    void add_partition_to_total() {
        sum_lanes(scratch_.sum);
        merge_rows<V>(scratch_.max, scratch_.sum, scratch_.out, scratch_.total_max,
                      scratch_.total_sum, scratch_.total_out, rows_, shape_.head_dim);
    }

    void leave_partial(int partition) {
        const Partial part = partial(partition);
        const int64_t n = int64_t{rows_} * shape_.head_dim;
        for (int64_t i = 0; i < n; i += V::kLanes)
            V::store(part.out + i, V::load(scratch_.out + i));
        for (int r = 0; r < rows_; ++r) part.max[r] = scratch_.max[r];
        sum_lanes(part.sum);
    }

    // One sum per row; `to` may be the lanes' own memory.
    void sum_lanes(float* to) const {
        for (int r = 0; r < rows_; ++r) to[r] = V::sum_of_sixteen(scratch_.sum + r * kLaneSums);
    }

    void write_output() {
        const AttnSequence& s = *item_.sequence;
        const int64_t d = shape_.head_dim;
        for (int r = 0; r < rows_; ++r)
            finish_row<V>(scratch_.total_sum[r], scratch_.total_out + r * d,
                          s.out + vector_offset(r, s.out_row_stride), shape_.head_dim);
    }

    const AttnItem& item_;
    const AttnShape& shape_;
    const AttnScratch& scratch_;
    const Reader reader_;
    const int group_;  // query heads per KV head
    const int rows_;
    const int first_position_;
    const float cap_;      // softcap * log2(e), or 0
    const KeyRange keys_;  // seen by any row
    const bool direct_;
};

}  // namespace quire::kernels::generic
