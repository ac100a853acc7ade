// KvLayout: where every number of a block lies.
//
// A model's layers fall into groups that share a block table: full attention, sliding window
// (others are reserved). A *page* is one block of one layer and one KV head: K then V, 16 bit
// unless the group says that it holds a codec's pages (src/codec/):
//   K  [head_dim][block_tokens]   dim-major, so that scores need no horizontal sums
//   V  [block_tokens][head_dim]   token-major
// A *slab* is one block of one group: a 4 KiB header (format/slab.h), then for each layer of the
// group in order, for each KV head in order, one page; padded to 4 KiB. The same bytes sit in G1,
// G2 and G3. Values only; everything is derived from the fields and checked once by validate().
//
// With a codec a layer is in two groups: one of 16-bit pages for the sinks, the first sink_tokens,
// and for a block while it is being filled; and one of codes for the blocks between
// (split_for_codes), with the layers of the same widths. Both have the same kind and window. Layers
// that are not coded are in a group that keeps all.
//
// What is recent is exact too: positions fall into spans, and a query reads the keys of its own
// span exact. That is a rule of the position alone, and no query reads exact keys of a span before
// its own, so that a prefix of whole spans can be taken from codes and sinks and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "core/hash128.h"

namespace quire {

enum class KvKind : uint8_t { full, window, mla, indexer, recurrent };  // the last three: reserved
enum class Element : uint8_t { f16, bf16 };

inline constexpr size_t kSlabHeaderBytes = 4096;
inline constexpr size_t kSlabAlign = 4096;
inline constexpr uint32_t kMaxBlockTokens = 256;
inline constexpr uint32_t kMaxGroupLayers = 256;
inline constexpr uint32_t kMaxGroups = 8;
inline constexpr uint32_t kMaxKvHeads = 1024;
inline constexpr uint32_t kMaxSinkTokens = 4096;
inline constexpr uint32_t kMaxSpanTokens = 4096;
inline constexpr size_t kMaxPayloadBytes = size_t{1} << 30;

// Which whole blocks of a prefix a group keeps: all; those of the sinks; those after the sinks.
enum class KvKeep : uint8_t { all, sinks, rest };

inline constexpr uint32_t kCodecRaw16 = 1;  // codec id of 16-bit pages

// How a group's pages are written.
struct KvPages {
    uint32_t codec = kCodecRaw16;  // CodecSpec::id() of src/codec/
    uint16_t version = 1;
    uint32_t bytes = 0;  // of one page; 0: K and V of 16 bit
    // Names what was done to the numbers before they were written (rotation, means); zero: nothing.
    Hash128 transform;

    friend bool operator==(const KvPages&, const KvPages&) = default;
};

struct KvGroup {
    KvKind kind = KvKind::full;
    uint32_t window_tokens = 0;    // window only: a query sees keys in (pos - window, pos]
    std::vector<uint16_t> layers;  // model layer numbers, ascending
    uint32_t kv_heads = 0;
    uint32_t head_dim = 0;
    KvKeep keep = KvKeep::all;
    KvPages pages = {};
};

// Blocks [first, end) of a sequence.
struct BlockRange {
    uint32_t first = 0;
    uint32_t end = 0;

    bool has(uint32_t block) const { return block >= first && block < end; }
    uint32_t count() const { return end > first ? end - first : 0; }
};

struct KvLayout {
    uint32_t block_tokens = 16;
    Element element = Element::f16;
    uint32_t sink_tokens = 0;  // of groups that do not keep all; a multiple of block_tokens
    uint32_t span_tokens = 0;  // with a codec; a multiple of block_tokens; 0: a block is a span
    std::vector<KvGroup> groups;

    // invalid when a size is zero, over its bound, not a multiple of 16, layers are not ascending,
    // or a layer appears twice; unsupported for reserved kinds and odd head sizes. Everything below
    // is defined only for a valid layout.
    Status validate() const;

    size_t element_bytes() const { return 2; }
    uint32_t sink_blocks() const { return sink_tokens / block_tokens; }
    uint32_t span_blocks() const { return span_tokens == 0 ? 1 : span_tokens / block_tokens; }
    // The first block of the span that a query at `position` stands in: of it and those after it
    // the query reads exact pages.
    uint32_t open_block(uint32_t position) const {
        return position / block_tokens / span_blocks() * span_blocks();
    }
    // Whether so many whole blocks can be taken from a cache, as far as spans go: what is read
    // exact next is sinks, or is not there yet.
    bool can_end(uint32_t blocks) const {
        return blocks <= sink_blocks() || blocks % span_blocks() == 0;
    }
    // Whether some group's pages are a codec's.
    bool coded() const;
    // Whole blocks that the group would ever keep, of the first n.
    BlockRange kept_blocks(size_t group, uint32_t n) const;
    // Of the whole blocks before `position`, those that queries from there on read from the group,
    // but for exact pages of a span that is open. A prefix for which can_end() can be taken from a
    // cache that has them.
    BlockRange needed_blocks(size_t group, uint32_t position) const;
    // One layer, one KV head: K and V.
    size_t page_bytes(size_t group) const;
    // One layer, all KV heads.
    size_t layer_bytes(size_t group) const;
    // Offset of the i-th layer *of the group* from the start of the slab (after the header).
    size_t layer_offset(size_t group, size_t layer_in_group) const;
    size_t payload_bytes(size_t group) const;
    size_t slab_bytes(size_t group) const;
    // Bytes of KV that one token takes over all groups, headers not counted; with a codec those of
    // a token after the sinks in a whole block.
    size_t bytes_per_token() const;
    // The same for a sequence's first `tokens` tokens together, sinks and the open block included.
    uint64_t sequence_bytes(uint32_t tokens) const;
    // A digest of every field above: part of each BlockKey and slab header.
    Hash128 digest() const;
};

// Layers of one group whose codes have the same form.
struct CodedLayers {
    size_t group = 0;
    std::vector<uint16_t> layers;  // ascending
    KvPages pages;
};

// The layout of the same model with codes. Group i becomes group i, of exact pages of its layers
// that `coded` names; a group with none such stays as it is. Then come groups of layers of others
// that it does not name, which keep all blocks exact; then the coded ones. The exact pages' numbers
// of coded layers have `transform` too.
KvLayout split_for_codes(const KvLayout& layout, uint32_t sink_tokens,
                         const std::vector<CodedLayers>& coded, const Hash128& transform);
}  // namespace quire
