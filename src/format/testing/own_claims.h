// What a slab's header claims to be, as an expectation that it therefore matches.
#pragma once

#include "format/slab.h"

namespace quire {

// Borrows the header's tokens.
inline SlabExpectation own_claims(const SlabHeader& h) {
    return {.key = h.key,
            .prefix = h.prefix,
            .parent_prefix = h.parent_prefix,
            .model = h.model,
            .layout_digest = h.layout_digest,
            .codec = h.codec,
            .codec_version = h.codec_version,
            .group = h.group,
            .page = h.page,
            .tokens = TokenSpan(h.tokens.data(), h.token_count)};
}

}  // namespace quire
