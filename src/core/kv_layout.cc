#include "core/kv_layout.h"

#include <algorithm>
#include <set>
#include <string>

#include "base/hash.h"

namespace quire {

namespace {

Status validate_group(const KvGroup& group) {
    if (group.kind != KvKind::full && group.kind != KvKind::window)
        return make_error(Code::unsupported,
                          "only full and window attention groups are supported, not kind " +
                              std::to_string(static_cast<int>(group.kind)));
    if ((group.kind == KvKind::window) != (group.window_tokens > 0))
        return make_error(Code::invalid, "a window group, and only it, needs window_tokens > 0");
    if (group.layers.empty() || group.layers.size() > kMaxGroupLayers)
        return make_error(Code::invalid, "a group needs 1 to 256 layers, not " +
                                             std::to_string(group.layers.size()));
    if (group.kv_heads == 0 || group.kv_heads > kMaxKvHeads)
        return make_error(Code::invalid, "kv_heads must be 1 to " + std::to_string(kMaxKvHeads) +
                                             ", not " + std::to_string(group.kv_heads));
    if (group.head_dim == 0 || group.head_dim % 16 != 0 || group.head_dim > 1024)
        return make_error(Code::unsupported, "head_dim must be a multiple of 16 up to 1024, not " +
                                                 std::to_string(group.head_dim));
    if (!std::ranges::is_sorted(group.layers))
        return make_error(Code::invalid, "the layers of a group must be in ascending order");
    return {};
}

}  // namespace

Status KvLayout::validate() const {
    if (block_tokens == 0 || block_tokens > kMaxBlockTokens || block_tokens % 16 != 0)
        return make_error(Code::invalid,
                          "block_tokens must be a multiple of 16 from 16 to 256, not " +
                              std::to_string(block_tokens));
    if (groups.empty() || groups.size() > kMaxGroups)
        return make_error(Code::invalid, "a layout needs 1 to " + std::to_string(kMaxGroups) +
                                             " groups, not " + std::to_string(groups.size()));
    std::set<uint16_t> seen;
    for (size_t g = 0; g < groups.size(); ++g) {
        QUIRE_TRY(validate_group(groups[g]));
        if (payload_bytes(g) > kMaxPayloadBytes)
            return make_error(Code::invalid, "a block of group " + std::to_string(g) + " takes " +
                                                 std::to_string(payload_bytes(g)) +
                                                 " bytes, at most 1 GiB is allowed; use a smaller "
                                                 "block_tokens");
        for (const uint16_t layer : groups[g].layers)
            if (!seen.insert(layer).second)
                return make_error(Code::invalid,
                                  "layer " + std::to_string(layer) + " appears twice");
    }
    return {};
}

size_t KvLayout::page_bytes(size_t group) const {
    return 2 * size_t{block_tokens} * groups[group].head_dim * element_bytes();
}

size_t KvLayout::layer_bytes(size_t group) const {
    return groups[group].kv_heads * page_bytes(group);
}

size_t KvLayout::layer_offset(size_t group, size_t layer_in_group) const {
    return kSlabHeaderBytes + layer_in_group * layer_bytes(group);
}

size_t KvLayout::payload_bytes(size_t group) const {
    return groups[group].layers.size() * layer_bytes(group);
}

size_t KvLayout::slab_bytes(size_t group) const {
    const size_t bytes = kSlabHeaderBytes + payload_bytes(group);
    return (bytes + kSlabAlign - 1) / kSlabAlign * kSlabAlign;
}

size_t KvLayout::bytes_per_token() const {
    size_t bytes = 0;
    for (size_t g = 0; g < groups.size(); ++g) bytes += payload_bytes(g);
    return bytes / block_tokens;
}

Hash128 KvLayout::digest() const {
    std::vector<uint32_t> words = {1 /* layout version */, block_tokens,
                                   static_cast<uint32_t>(element),
                                   static_cast<uint32_t>(groups.size())};
    for (const KvGroup& group : groups) {
        words.insert(words.end(),
                     {static_cast<uint32_t>(group.kind), group.window_tokens, group.kv_heads,
                      group.head_dim, static_cast<uint32_t>(group.layers.size())});
        words.insert(words.end(), group.layers.begin(), group.layers.end());
    }
    const Digest128 d = sha256_128(std::as_bytes(std::span(words)));
    return {d.hi, d.lo};
}

}  // namespace quire
