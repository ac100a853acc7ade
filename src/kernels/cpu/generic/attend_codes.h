// A work item over sequences with compressed pages: ItemRunner, but each tile of keys is exact for
// some rows and codes for others (tile_kinds), queries are rotated once and outputs rotated back.
#pragma once

#include "codec/hot/generic/rotate.h"
#include "kernels/cpu/generic/attend.h"
#include "kernels/cpu/generic/code_tiles.h"

namespace quire::kernels::generic {

template <class V, class Reader>
class CodesRunner : private ItemRunner<V, Reader> {
    using Base = ItemRunner<V, Reader>;
    using typename Base::TileRows;

 public:
    explicit CodesRunner(const AttnItem& item) : Base(item), codes_(shape_.codes), pages_(shape_) {
        pages_.set_offsets(scales_);
    }

    void attend() {
        if (rows_ == 0) return;
        if (direct_ && !item_.fetched) fetch_first_tile();
        pack_queries();
        this->clear_total();
        for (int p = item_.partition_begin; p < item_.partition_end; ++p) {
            reduce_partition(p * kPartitionTokens);
            if (item_.partials == nullptr)
                this->add_partition_to_total();
            else
                this->leave_partial(p);
        }
        if (item_.partials == nullptr) write_output();
    }

    void fetch() const {
        if (direct_) fetch_first_tile();
    }

    void merge() {
        this->merge_partials();
        write_output();
    }

 private:
    using Base::direct_;
    using Base::first_position_;
    using Base::group_;
    using Base::item_;
    using Base::keys_;
    using Base::reader_;
    using Base::rows_;
    using Base::scratch_;
    using Base::shape_;
    using CodecV = typename V::Codec;

    void pack_queries() {
        const AttnSequence& s = *item_.sequence;
        const int64_t d_end = shape_.head_dim;
        const float scale =
            this->cap_ > 0.0f ? shape_.scale / shape_.softcap : shape_.scale * kLog2e;
        for (int first = 0; first < rows_; first += kRowBlock) {
            const int n = this->block_rows(first);
            float* packed = scratch_.q + first * d_end;
            for (int r = 0; r < n; ++r) {
                alignas(64) float q[256];
                const float* from = s.q + this->vector_offset(first + r, s.q_row_stride);
                for (int64_t d = 0; d < d_end; ++d) q[d] = from[d];
                hot::generic::rotate<CodecV>(q, static_cast<uint32_t>(d_end));
                float sum = 0.0f;
                for (int64_t d = 0; d < d_end; ++d) {
                    const float x = q[d] * scale;
                    packed[d * n + r] = x;
                    sum += x;
                }
                scratch_.q_sum[first + r] = sum;
                find_turns(codes_.turns, item_.kv_head, from, scale, first + r, scratch_.turns);
            }
        }
    }

    void write_output() const {
        const AttnSequence& s = *item_.sequence;
        const int64_t d_end = shape_.head_dim;
        const float* mean =
            codes_.v_mean != nullptr ? codes_.v_mean + item_.kv_head * d_end : nullptr;
        for (int r = 0; r < rows_; ++r) {
            float* out = s.out + this->vector_offset(r, s.out_row_stride);
            finish_row<V>(scratch_.total_sum[r], scratch_.total_out + r * d_end, out,
                          shape_.head_dim);
            hot::generic::rotate<CodecV>(out, static_cast<uint32_t>(d_end));
            for (int64_t d = 0; mean != nullptr && d < d_end; d += V::kLanes)
                V::store(out + d, V::add(V::load(out + d), V::load(mean + d)));
        }
    }

    void reduce_partition(int begin) {
        this->clear_partition();
        const int end = begin + kPartitionTokens < keys_.end ? begin + kPartitionTokens : keys_.end;
        int tile = keys_.begin > begin ? keys_.begin / kKeyTileTokens * kKeyTileTokens : begin;
        for (; tile < end; tile += kKeyTileTokens) {
            const TileKinds kinds = tile_kinds(codes_, tile);
            const int split = first_coded_row(kinds);
            if (split > 0) attend_exact(tile, split);
            if (split < rows_) attend_coded(tile, split, kinds);
        }
    }

    // Rows before it read the tile exact.
    int first_coded_row(const TileKinds& kinds) const {
        if (kinds.exact_end <= first_position_) return 0;
        const int positions = kinds.exact_end - first_position_;
        return positions < item_.n_positions ? positions * group_ : rows_;
    }

    void attend_exact(int tile, int row_end) const {
        PageTile<V, Reader> pages{reader_, {}, {}, shape_.head_dim <= kNearHeadDim};
        this->find_groups(item_, keys_, tile, pages.groups);
        for (int g = 0; g < kTileGroups; ++g) pages.next[g] = pages.groups[g];
        if (direct_) return this->attend_rows(TileRows{tile, 0, row_end, false}, pages, [](int) {});
        const bool poisoned = this->convert(tile, pages, keys_);
        this->attend_rows(TileRows{tile, 0, row_end, poisoned}, this->converted(), [](int) {});
    }

    // The groups of a tile of codes, as find_groups.
    void find_code_groups(const AttnItem& item, KeyRange keys, int tile, CodeGroup* groups) const {
        const int seen_begin = keys.begin > tile ? keys.begin : tile;
        for (int g = 0; g < kTileGroups; ++g) {
            int key = tile + g * kGroupKeys;
            if (key + kGroupKeys <= keys.begin || key >= keys.end)
                key = seen_begin / kGroupKeys * kGroupKeys;
            const std::byte* slab = item.sequence->coded_slabs[key / shape_.block_tokens];
            groups[g] = pages_.group(slab + codes_.layer_offset + item.kv_head * codes_.page_bytes,
                                     key % shape_.block_tokens);
        }
    }

    void attend_coded(int tile, int row_begin, const TileKinds& kinds) {
        const int position = first_position_ + row_begin / group_;
        const KeyRange keys = visible_keys(shape_, position, 1);
        if (keys.begin >= tile + kKeyTileTokens) return;
        const KeyRange seen = {keys.begin, tile + kKeyTileTokens};
        if (kinds.exact_tokens > 0) return attend_mixed(tile, row_begin, kinds, seen);
        CodeTile<V> source{pages_, scales_, reinterpret_cast<uint8_t*>(scratch_.k_tile), {}, {}};
        find_code_groups(item_, seen, tile, source.groups);
        find_next(tile, source);
        for (int g = 0; g < kTileGroups; ++g) pages_.load_scales(source.groups[g], g, scales_);
        const TileRows rows{tile, row_begin, rows_, false};
        if (direct_) return this->attend_rows(rows, source, [](int) {});
        for (int g = 0; g < kTileGroups; ++g) pages_.fetch_all(source.next[g]);
        for (int g = 0; g < kTileGroups; ++g)
            convert_codes(pages_, source.groups[g], g, scratch_.k_tile, scratch_.v_tile);
        this->attend_rows(rows, ScaledTile<V>{this->converted(), scales_}, [](int) {});
    }

    // A tile that begins with sinks and goes on with codes: a float32 copy for any number of rows.
    void attend_mixed(int tile, int row_begin, const TileKinds& kinds, KeyRange seen) {
        bool poisoned = false;
        const KeyRange sinks = {seen.begin, tile + kinds.exact_tokens};
        if (sinks.begin < sinks.end) {
            PageTile<V, Reader> pages{reader_, {}, {}, false};
            this->find_groups(item_, sinks, tile, pages.groups);
            poisoned = this->convert(tile, pages, sinks);
        }
        const KeyRange coded = {seen.begin > sinks.end ? seen.begin : sinks.end, seen.end};
        CodeGroup groups[kTileGroups];
        find_code_groups(item_, coded, tile, groups);
        for (int g = 0; g < kTileGroups; ++g) {
            pages_.load_scales(groups[g], g, scales_);
            if (g * kGroupKeys >= kinds.exact_tokens)
                convert_codes(pages_, groups[g], g, scratch_.k_tile, scratch_.v_tile);
        }
        for (int i = 0; i < kinds.exact_tokens; ++i) {
            scales_.k_scale[i] = scales_.v_scale[i] = 1.0f;
            scales_.k_minus_offset[i] = -0.0f;
            scales_.v_offset[i] = 0.0f;
        }
        scales_.first_coded = kinds.exact_tokens;
        this->attend_rows(TileRows{tile, row_begin, rows_, poisoned},
                          ScaledTile<V>{this->converted(), scales_}, [](int) {});
        pages_.set_offsets(scales_);
        scales_.first_coded = 0;
    }

    // The tile after this one, when rows of this item read it as codes; of the item that follows;
    // or what is in use already.
    void find_next(int tile, CodeTile<V>& source) const {
        const int next = tile + kKeyTileTokens;
        const int last = first_position_ + item_.n_positions - 1;
        if (next < item_.partition_end * kPartitionTokens) {
            if (is_coded(next, last))
                return find_code_groups(item_, {next, next + kKeyTileTokens}, next, source.next);
        } else if (item_.following != nullptr) {
            const AttnItem& item = *item_.following;
            const int start = first_coded_tile(item);
            if (start >= 0)
                return find_code_groups(item, {start, start + kKeyTileTokens}, start, source.next);
        }
        for (int g = 0; g < kTileGroups; ++g) source.next[g] = source.groups[g];
    }

    // Whether a row at `position` reads the whole tile as codes.
    bool is_coded(int tile, int position) const {
        const TileKinds kinds = tile_kinds(codes_, tile);
        return kinds.exact_tokens == 0 && position >= kinds.exact_end &&
               visible_keys(shape_, position, 1).begin <= tile;
    }

    // The tile where an item of one row starts, or -1 where that is not one of codes.
    int first_coded_tile(const AttnItem& item) const {
        const int position = item.sequence->first_pos + item.row_begin;
        const int tile = this->first_tile(item, visible_keys(shape_, position, item.n_positions));
        return tile >= 0 && is_coded(tile, position) ? tile : -1;
    }

    void fetch_first_tile() const {
        const int tile = first_coded_tile(item_);
        if (tile < 0) return;
        CodeGroup groups[kTileGroups];
        find_code_groups(item_, {tile, tile + kKeyTileTokens}, tile, groups);
        for (int g = 0; g < kTileGroups; ++g) pages_.fetch_all(groups[g]);
    }

    const AttnCodes& codes_;
    const CodePages<V> pages_;
    TileScales scales_;
};

}  // namespace quire::kernels::generic
