// Apart from the rest of a layout, because naming needs a cryptographic library and nothing else
// about layouts does.
#include <vector>

#include "base/hash.h"
#include "core/kv_layout.h"

namespace quire {
namespace {

constexpr uint32_t kCodedLayoutVersion = 1;

}  // namespace

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
    // Layouts without codes keep the digest that they had before there were any.
    if (coded()) {
        words.insert(words.end(), {kCodedLayoutVersion, sink_tokens});
        // Spans of a block are what all layouts had before there were others.
        if (span_blocks() > 1) words.push_back(span_tokens);
        for (const KvGroup& group : groups) {
            const Hash128& t = group.pages.transform;
            words.insert(
                words.end(),
                {static_cast<uint32_t>(group.keep), group.pages.codec, group.pages.version,
                 group.pages.bytes, static_cast<uint32_t>(t.hi), static_cast<uint32_t>(t.hi >> 32),
                 static_cast<uint32_t>(t.lo), static_cast<uint32_t>(t.lo >> 32)});
        }
    }
    const Digest128 d = sha256_128(std::as_bytes(std::span(words)));
    return {d.hi, d.lo};
}

}  // namespace quire
