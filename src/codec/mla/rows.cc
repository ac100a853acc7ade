#include "codec/mla/rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "codec/fp8/one.h"
#include "core/half.h"

namespace quire::codec::mla {
namespace {

constexpr float kTop = 448.0f;
constexpr float kFloor = 1e-4f;  // of V3.2's scales, and of V4's magnitudes
constexpr uint32_t kV32Tile = 128;
constexpr uint32_t kV4Tile = 64;
constexpr uint32_t kV4Body = kV4Latent + 2 * kRotary;
constexpr uint32_t kV4ScaleBytes = 8;

float largest_finite(std::span<const float> x) {
    float top = 0;
    for (const float value : x)
        if (std::isfinite(value)) top = std::max(top, std::fabs(value));
    return top;
}

// The float32's exponent of the smallest power of two that is at least x. REQUIRES: x is normal.
uint32_t exponent_at_least(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x);
    return (bits >> 23) + ((bits & 0x7fffff) != 0 ? 1 : 0);
}
float power_of_two(uint32_t exponent) {
    if (exponent == 255) return std::bit_cast<float>(0x7fc00000u);
    return exponent == 0 ? 0x1p-127f : std::bit_cast<float>(exponent << 23);
}

void encode_tile(std::span<const float> x, float scale, std::byte* out) {
    for (const float value : x) *out++ = std::byte{fp8::code_of(fp8::kE4m3, value / scale)};
}
void decode_tile(const std::byte* in, float scale, std::span<float> x) {
    for (float& value : x) value = fp8::value_of(fp8::kE4m3, static_cast<uint8_t>(*in++)) * scale;
}

void encode_rotary(std::span<const float> x, std::byte* out) {
    for (uint32_t i = 0; i < kRotary; ++i) {
        const uint16_t word = f32_to_bf16(x[i]);
        std::memcpy(out + size_t{2} * i, &word, sizeof(word));
    }
}
void decode_rotary(const std::byte* in, std::span<float> x) {
    for (uint32_t i = 0; i < kRotary; ++i) {
        uint16_t word;
        std::memcpy(&word, in + size_t{2} * i, sizeof(word));
        x[i] = bf16_to_f32(word);
    }
}

bool is_finite(std::span<const float> x) {
    return std::all_of(x.begin(), x.end(), [](float value) { return std::isfinite(value); });
}

}  // namespace

bool encode_v32(std::span<const float, kV32Numbers> row, TileScale kind,
                std::span<std::byte, kV32Bytes> out) {
    for (uint32_t tile = 0; tile < kV32Latent / kV32Tile; ++tile) {
        const auto x = row.subspan(size_t{tile} * kV32Tile, kV32Tile);
        const float exact = largest_finite(x) / kTop;
        const float scale = kind == TileScale::exact
                                ? std::max(exact, 0x1p-126f)
                                : power_of_two(exponent_at_least(std::max(exact, kFloor)));
        encode_tile(x, scale, out.data() + size_t{tile} * kV32Tile);
        std::memcpy(out.data() + kV32Latent + tile * sizeof(scale), &scale, sizeof(scale));
    }
    encode_rotary(row.subspan(kV32Latent), out.data() + kV32Bytes - 2 * kRotary);
    return is_finite(row);
}

void decode_v32(std::span<const std::byte, kV32Bytes> in, std::span<float, kV32Numbers> row) {
    for (uint32_t tile = 0; tile < kV32Latent / kV32Tile; ++tile) {
        float scale;
        std::memcpy(&scale, in.data() + kV32Latent + tile * sizeof(scale), sizeof(scale));
        decode_tile(in.data() + size_t{tile} * kV32Tile, scale,
                    row.subspan(size_t{tile} * kV32Tile, kV32Tile));
    }
    decode_rotary(in.data() + kV32Bytes - 2 * kRotary, row.subspan(kV32Latent));
}

bool encode_v4(std::span<const float, kV4Numbers> row, uint32_t block_tokens, uint32_t token,
               std::span<std::byte> block) {
    std::byte* body = block.data() + size_t{token} * kV4Body;
    std::byte* scales =
        block.data() + size_t{block_tokens} * kV4Body + size_t{token} * kV4ScaleBytes;
    for (uint32_t tile = 0; tile < kV4Latent / kV4Tile; ++tile) {
        const auto x = row.subspan(size_t{tile} * kV4Tile, kV4Tile);
        const uint32_t exponent = exponent_at_least(std::max(largest_finite(x), kFloor) / kTop);
        encode_tile(x, power_of_two(exponent), body + size_t{tile} * kV4Tile);
        scales[tile] = static_cast<std::byte>(exponent);
    }
    scales[kV4ScaleBytes - 1] = std::byte{0};
    encode_rotary(row.subspan(kV4Latent), body + kV4Latent);
    return is_finite(row);
}

void decode_v4(std::span<const std::byte> block, uint32_t block_tokens, uint32_t token,
               std::span<float, kV4Numbers> row) {
    const std::byte* body = block.data() + size_t{token} * kV4Body;
    const std::byte* scales =
        block.data() + size_t{block_tokens} * kV4Body + size_t{token} * kV4ScaleBytes;
    for (uint32_t tile = 0; tile < kV4Latent / kV4Tile; ++tile)
        decode_tile(body + size_t{tile} * kV4Tile,
                    power_of_two(static_cast<uint32_t>(scales[tile])),
                    row.subspan(size_t{tile} * kV4Tile, kV4Tile));
    decode_rotary(body + kV4Latent, row.subspan(kV4Latent));
}

}  // namespace quire::codec::mla
