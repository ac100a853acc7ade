// KvLayout: where every number of a block lies.
//
// A model's layers fall into groups that share a block table: full attention, sliding window
// (others are reserved). A *page* is one block of one layer and one KV head: K then V, both 16 bit
// here:
//   K  [head_dim][block_tokens]   dim-major, so that scores need no horizontal sums
//   V  [block_tokens][head_dim]   token-major
// A *slab* is one block of one group: a 4 KiB header (format/slab.h), then for each layer of the
// group in order, for each KV head in order, one page; padded to 4 KiB. The same bytes sit in G1,
// G2 and G3. Values only; everything is derived from the fields and checked once by validate().
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
inline constexpr uint32_t kMaxGroups = 4;
inline constexpr uint32_t kMaxKvHeads = 1024;
inline constexpr size_t kMaxPayloadBytes = size_t{1} << 30;

struct KvGroup {
    KvKind kind = KvKind::full;
    uint32_t window_tokens = 0;    // window only: a query sees keys in (pos - window, pos]
    std::vector<uint16_t> layers;  // model layer numbers, ascending
    uint32_t kv_heads = 0;
    uint32_t head_dim = 0;
};

struct KvLayout {
    uint32_t block_tokens = 16;
    Element element = Element::f16;
    std::vector<KvGroup> groups;

    // invalid when a size is zero, over its bound, not a multiple of 16, layers are not ascending,
    // or a layer appears twice; unsupported for reserved kinds and odd head sizes. Everything below
    // is defined only for a valid layout.
    Status validate() const;

    size_t element_bytes() const { return 2; }
    // One layer, one KV head: K and V.
    size_t page_bytes(size_t group) const;
    // One layer, all KV heads.
    size_t layer_bytes(size_t group) const;
    // Offset of the i-th layer *of the group* from the start of the slab (after the header).
    size_t layer_offset(size_t group, size_t layer_in_group) const;
    size_t payload_bytes(size_t group) const;
    size_t slab_bytes(size_t group) const;
    // Bytes of KV that one token takes over all groups, headers not counted.
    size_t bytes_per_token() const;
    // A digest of every field above: part of each BlockKey and slab header.
    Hash128 digest() const;
};

}  // namespace quire
