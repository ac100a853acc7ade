#include "core/kv_layout.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

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
    if (sink_tokens % block_tokens != 0 || sink_tokens > kMaxSinkTokens)
        return make_error(Code::invalid, "sink_tokens must be a multiple of block_tokens up to " +
                                             std::to_string(kMaxSinkTokens) + ", not " +
                                             std::to_string(sink_tokens));
    if (span_tokens % block_tokens != 0 || span_tokens > kMaxSpanTokens)
        return make_error(Code::invalid, "span_tokens must be a multiple of block_tokens up to " +
                                             std::to_string(kMaxSpanTokens) + ", not " +
                                             std::to_string(span_tokens));
    std::set<std::pair<KvKeep, uint16_t>> seen;
    std::map<uint16_t, std::set<KvKeep>> keeps;
    for (size_t g = 0; g < groups.size(); ++g) {
        QUIRE_TRY(validate_group(groups[g]));
        if (payload_bytes(g) > kMaxPayloadBytes)
            return make_error(Code::invalid, "a block of group " + std::to_string(g) + " takes " +
                                                 std::to_string(payload_bytes(g)) +
                                                 " bytes, at most 1 GiB is allowed; use a smaller "
                                                 "block_tokens");
        for (const uint16_t layer : groups[g].layers) {
            if (!seen.insert({groups[g].keep, layer}).second)
                return make_error(Code::invalid,
                                  "layer " + std::to_string(layer) + " appears twice");
            keeps[layer].insert(groups[g].keep);
        }
    }
    for (const auto& [layer, kept] : keeps)
        if (kept.contains(KvKeep::all) ? kept.size() > 1 : kept.size() < 2)
            return make_error(Code::invalid,
                              "layer " + std::to_string(layer) +
                                  " must be in a group that keeps all blocks, or in one that keeps "
                                  "the sinks and one that keeps the rest");
    return {};
}

bool KvLayout::coded() const {
    return std::ranges::any_of(groups, [](const KvGroup& g) { return g.keep == KvKeep::rest; });
}

BlockRange KvLayout::kept_blocks(size_t group, uint32_t n) const {
    switch (groups[group].keep) {
        case KvKeep::sinks:
            return {0, std::min(n, sink_blocks())};
        case KvKeep::rest:
            return {std::min(n, sink_blocks()), n};
        case KvKeep::all:
            break;
    }
    return {0, n};
}

BlockRange KvLayout::needed_blocks(size_t group, uint32_t position) const {
    const KvGroup& shape = groups[group];
    BlockRange range = kept_blocks(group, position / block_tokens);
    // A query at p sees keys in (p - window, p].
    if (shape.kind == KvKind::window && position >= shape.window_tokens)
        range.first = std::max(range.first, (position - shape.window_tokens + 1) / block_tokens);
    return range;
}

size_t KvLayout::page_bytes(size_t group) const {
    if (groups[group].pages.bytes > 0) return groups[group].pages.bytes;
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
    for (size_t g = 0; g < groups.size(); ++g)
        if (groups[g].keep != KvKeep::sinks) bytes += payload_bytes(g);
    return bytes / block_tokens;
}

uint64_t KvLayout::sequence_bytes(uint32_t tokens) const {
    uint64_t bytes = 0;
    for (size_t g = 0; g < groups.size(); ++g) {
        const uint32_t last = tokens == 0 ? 0 : tokens - 1;
        uint64_t blocks = needed_blocks(g, last).count();
        const uint32_t own = last / block_tokens;
        if (groups[g].keep == KvKeep::sinks && tokens > 0)
            blocks += own + 1 - std::max(open_block(last), std::min(own, sink_blocks()));
        if (groups[g].keep == KvKeep::all && tokens > 0) ++blocks;
        bytes += blocks * payload_bytes(g);
    }
    return bytes;
}

KvLayout split_for_codes(const KvLayout& layout, uint32_t sink_tokens,
                         const std::vector<CodedLayers>& coded, const Hash128& transform) {
    KvLayout split = layout;
    split.sink_tokens = sink_tokens;
    for (size_t g = 0; g < layout.groups.size(); ++g) {
        std::set<uint16_t> named;
        for (const CodedLayers& part : coded)
            if (part.group == g) named.insert(part.layers.begin(), part.layers.end());
        if (named.empty()) continue;
        KvGroup others = layout.groups[g];
        std::erase_if(others.layers, [&](uint16_t layer) { return named.contains(layer); });
        KvGroup& exact = split.groups[g];
        exact.layers.assign(named.begin(), named.end());
        exact.keep = KvKeep::sinks;
        exact.pages.transform = transform;
        if (!others.layers.empty()) split.groups.push_back(std::move(others));
    }
    for (const CodedLayers& part : coded) {
        KvGroup& group = split.groups.emplace_back(layout.groups[part.group]);
        group.layers = part.layers;
        group.keep = KvKeep::rest;
        group.pages = part.pages;
    }
    return split;
}

}  // namespace quire
