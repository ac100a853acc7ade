// Slabs for tests of stores: sealed, of any size, with bytes that follow from a number. Header
// only.
#pragma once

#include <cstring>
#include <span>

#include "base/arena.h"
#include "base/check.h"
#include "format/slab.h"

namespace quire::testing {

inline uint64_t mix(uint64_t x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

inline BlockKey test_key(uint64_t number) {
    return BlockKey{{mix(number), mix(~number)}};
}

// Memory aligned to 4 KiB, as O_DIRECT and slabs need it.
class AlignedBytes {
 public:
    AlignedBytes() = default;
    explicit AlignedBytes(size_t bytes) {
        auto arena = Arena::create({.bytes = bytes, .huge_pages = false});
        QUIRE_CHECK(arena.ok(), "no memory for a test buffer");
        memory_ = std::move(*arena);
        size_ = bytes;
    }
    std::span<std::byte> span() { return {memory_.data(), size_}; }
    std::span<const std::byte> span() const { return {memory_.data(), size_}; }
    size_t size() const { return size_; }

 private:
    Arena memory_;
    size_t size_ = 0;
};

// Slab `number` whose parent is slab `parent` (0: a root), of `layers` layers of `layer_bytes`. The
// payload follows from (number, version), so that a reader can tell whether bytes are right.
inline AlignedBytes make_slab(uint64_t number, uint64_t parent = 0, uint32_t layer_bytes = 8192,
                              uint16_t layers = 2, uint64_t version = 0) {
    AlignedBytes slab(slab_bytes_for(size_t{layers} * layer_bytes));
    SlabHeader& header = *new (slab.span().data()) SlabHeader();
    header.key = test_key(number);
    if (parent != 0) header.parent_key = test_key(parent);
    header.prefix.value = test_key(number + 1'000'000'000).value;
    header.model.value = {0x6D6F64656Cull, number % 3};
    header.payload_bytes = layers * layer_bytes;
    header.layer_count = layers;
    header.layer_bytes = layer_bytes;
    header.token_count = 16;
    for (int i = 0; i < 16; i++) header.tokens[i] = static_cast<TokenId>(number * 16 + i);
    std::byte* at = slab.span().data() + kSlabHeaderBytes;
    uint64_t state = mix(number * 31 + version);
    for (size_t i = 0; i + 8 <= header.payload_bytes; i += 8) {
        state = state * 6364136223846793005ull + 1442695040888963407ull;
        std::memcpy(at + i, &state, 8);
    }
    seal_slab(slab.span());
    return slab;
}

}  // namespace quire::testing
