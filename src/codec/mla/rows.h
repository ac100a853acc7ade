// Rows of multi-head latent attention as DeepSeek V3.2 and V4 cache them. README.md has the formula
// and the layouts. Pure; any thread; buffers are the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quire::codec::mla {

inline constexpr uint32_t kRotary = 64;

inline constexpr uint32_t kV32Latent = 512;
inline constexpr uint32_t kV32Numbers = kV32Latent + kRotary;
inline constexpr uint32_t kV32Bytes = 656;

inline constexpr uint32_t kV4Latent = 448;
inline constexpr uint32_t kV4Numbers = kV4Latent + kRotary;
inline constexpr uint32_t kV4Bytes = 584;

enum class TileScale : uint8_t { power_of_two, exact };

// Both return whether every number is finite; one that is not spoils no other.
bool encode_v32(std::span<const float, kV32Numbers> row, TileScale scale,
                std::span<std::byte, kV32Bytes> out);
void decode_v32(std::span<const std::byte, kV32Bytes> in, std::span<float, kV32Numbers> row);

// A block of `block_tokens` tokens; tokens may be written in any order.
constexpr size_t v4_block_bytes(uint32_t block_tokens) {
    return (size_t{block_tokens} * kV4Bytes + 575) / 576 * 576;
}
// REQUIRES: block has v4_block_bytes(block_tokens), token < block_tokens.
bool encode_v4(std::span<const float, kV4Numbers> row, uint32_t block_tokens, uint32_t token,
               std::span<std::byte> block);
void decode_v4(std::span<const std::byte> block, uint32_t block_tokens, uint32_t token,
               std::span<float, kV4Numbers> row);

}  // namespace quire::codec::mla
