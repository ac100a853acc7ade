// Whether a slab is the one that was asked for. Apart from whether it is sound (slab.cc), because
// only this needs to know the codecs and what a layout's pages look like.
#include <algorithm>
#include <string>

#include "format/slab.h"

namespace quire {
namespace {

Error other(const std::string& what) {
    return make_error(Code::miss, "slab: sound, but of another " + what);
}

}  // namespace

codec::PageDescription page_description(const KvLayout& layout, size_t group) {
    if (!layout.coded()) return {};
    const KvGroup& shape = layout.groups[group];
    return {.codec = shape.pages.codec,
            .version = shape.pages.version,
            .element = static_cast<uint8_t>(layout.element),
            .head_dim = static_cast<uint16_t>(shape.head_dim),
            .kv_heads = static_cast<uint16_t>(shape.kv_heads),
            .block_tokens = static_cast<uint16_t>(layout.block_tokens),
            .page_bytes = static_cast<uint32_t>(layout.page_bytes(group)),
            .sidecar = shape.pages.transform};
}

Status match_slab(std::span<const std::byte> slab, const SlabExpectation& expected) {
    QUIRE_TRY(verify_slab_header(slab));
    const SlabHeader& h = slab_header(slab);
    if (h.key != expected.key)
        return other("key: " + h.key.value.to_hex() + ", asked for " + expected.key.value.to_hex());
    if (h.model != expected.model) return other("model: " + h.model.value.to_hex());
    if (h.layout_digest != expected.layout_digest)
        return other("KV layout: " + h.layout_digest.to_hex());
    if (h.packed != PackedPayload{})
        return make_error(Code::unsupported,
                          "the slab was packed, or stands on what was, by a tier (packing " +
                              std::to_string(h.packed.packing) + ")");
    if (h.codec != expected.codec) return other("codec: " + std::to_string(h.codec));
    if (h.codec_version != expected.codec_version)
        return other("codec version: " + std::to_string(h.codec_version));
    if (const Status pages = codec::match_description(h.page, expected.page); !pages.ok())
        return other("way of coding: " + pages.error().message);
    if (h.group != expected.group) return other("group: " + std::to_string(h.group));
    if (h.prefix != expected.prefix) return other("prefix: " + h.prefix.value.to_hex());
    if (h.parent_prefix != expected.parent_prefix)
        return other("parent: " + h.parent_prefix.value.to_hex());
    const TokenSpan held(h.tokens.data(), h.token_count);
    const auto [mine, theirs] = std::ranges::mismatch(held, expected.tokens);
    if (mine != held.end() || theirs != expected.tokens.end())
        return other("text: tokens differ from token " + std::to_string(mine - held.begin()) +
                     " of the block on");
    return {};
}

}  // namespace quire
