// Levels and scales of the hot family: every constant, and the few functions all versions share.
//
// A row is level(code) * scale. With b >= 6 bits levels are the integers -2^(b-1) .. 2^(b-1) - 1,
// stored as level + 2^(b-1). With b <= 5 they are the Lloyd-Max levels of the normal distribution,
// stored in ascending order.
//
// A scale is one byte u, a sixteenth of an octave a step: 0 is a row of zeros, otherwise
// 2^(u / 16 - octaves(b)). Its range covers rows whose largest number is 0.004 to 240; what lies
// below is coded more coarsely, what lies above is clipped.
//
// Functions are always inlined: files of several instruction sets use them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.h"
#include "codec/hot/layout.h"

namespace quire::codec::hot {

[[gnu::always_inline]] constexpr bool is_lloyd(int bits) {
    return bits <= 5;
}
[[gnu::always_inline]] constexpr int magnitudes(int bits) {
    return 1 << (bits - 1);
}

// Lloyd-Max levels of N(0, 1), positive half. Source: the fixed point of "a level is the mean of
// the density between its thresholds, a threshold is the middle of two levels" (J. Max, Quantizing
// for minimum distortion, 1960), by Newton's method with 40 digits, printed with 9.
// Tables are longer than what they hold, so that they can be loaded into whole registers.
QUIRE_TABLE float kLevels2[8] = {0.452780035f, 1.51041761f};
QUIRE_TABLE float kLevels3[8] = {0.245094179f, 0.756005281f, 1.34390928f, 2.15194570f};
QUIRE_TABLE float kLevels4[8] = {0.128395030f, 0.388048300f, 0.656759119f, 0.942340457f,
                                 1.25623120f,  1.61804639f,  2.06901723f,  2.73258957f};
QUIRE_TABLE float kLevels5[16] = {0.0658896598f, 0.198051830f, 0.331378306f, 0.466699523f,
                                  0.604933624f,  0.747135704f, 0.894565117f, 1.04878332f,
                                  1.21180438f,   1.38634034f,  1.57622808f,  1.78723322f,
                                  2.02872840f,   2.31773940f,  2.69111958f,  3.26073249f};
// Between level i and i + 1.
QUIRE_TABLE float kThresholds2[12] = {0.981598822f};
QUIRE_TABLE float kThresholds3[12] = {0.500549730f, 1.04995728f, 1.74792749f};
QUIRE_TABLE float kThresholds4[12] = {0.258221665f, 0.522403709f, 0.799549788f, 1.09928583f,
                                      1.43713879f,  1.84353181f,  2.40080340f};
QUIRE_TABLE float kThresholds5[20] = {0.131970745f, 0.264715068f, 0.399038914f, 0.535816574f,
                                      0.676034664f, 0.820850411f, 0.971674219f, 1.13029385f,
                                      1.29907236f,  1.48128421f,  1.68173065f,  1.90798081f,
                                      2.17323390f,  2.50442949f,  2.97592604f};

[[gnu::always_inline]] constexpr const float* lloyd_levels(int bits) {
    return bits == 2 ? kLevels2 : bits == 3 ? kLevels3 : bits == 4 ? kLevels4 : kLevels5;
}
[[gnu::always_inline]] constexpr const float* lloyd_thresholds(int bits) {
    return bits == 2   ? kThresholds2
           : bits == 3 ? kThresholds3
           : bits == 4 ? kThresholds4
                       : kThresholds5;
}

// 2^(i / 16) and 2^(-i / 16), rounded to nearest.
QUIRE_TABLE float kSixteenth[16] = {1.0f,        1.04427373f, 1.09050775f, 1.13878858f,
                                    1.18920708f, 1.24185777f, 1.29683959f, 1.35425556f,
                                    1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f,
                                    1.68179286f, 1.75625217f, 1.83400810f, 1.91520655f};
QUIRE_TABLE float kInverseSixteenth[16] = {1.0f,         0.957603276f, 0.917004049f, 0.878126085f,
                                           0.840896428f, 0.805245161f, 0.771105409f, 0.738413095f,
                                           0.707106769f, 0.677127779f, 0.648419797f, 0.620928884f,
                                           0.594603539f, 0.569394290f, 0.545253873f, 0.522136867f};

[[gnu::always_inline]] constexpr int octaves(int bits) {
    return is_lloyd(bits) ? 9 : 7 + bits;
}

// 2^exponent. REQUIRES: -126 <= exponent <= 127.
[[gnu::always_inline]] constexpr float pow2(int exponent) {
    return __builtin_bit_cast(float, static_cast<uint32_t>(exponent + 127) << 23);
}

// REQUIRES: u > 0.
[[gnu::always_inline]] constexpr float scale_of(int bits, uint32_t u) {
    return kSixteenth[u & 15] * pow2(static_cast<int>(u >> 4) - octaves(bits));
}
[[gnu::always_inline]] constexpr float inverse_scale_of(int bits, uint32_t u) {
    return kInverseSixteenth[u & 15] * pow2(octaves(bits) - static_cast<int>(u >> 4));
}
// As decoding wants it: 0 for u = 0.
[[gnu::always_inline]] constexpr float decode_scale(int bits, uint32_t u) {
    return u == 0 ? 0.0f : scale_of(bits, u);
}

[[gnu::always_inline]] constexpr uint32_t clamp_scale(int u) {
    return static_cast<uint32_t>(u < 1 ? 1 : u > 255 ? 255 : u);
}

// The smallest scale, not clamped to a byte, that is at least `amplitude`.
// REQUIRES: amplitude is positive, normal and finite.
[[gnu::always_inline]] constexpr int scale_at_least(int bits, float amplitude) {
    const uint32_t word = __builtin_bit_cast(uint32_t, amplitude);
    const int exponent = static_cast<int>(word >> 23) - 127;
    const float mantissa = __builtin_bit_cast(float, (word & 0x7fffff) | 0x3f800000);
    int steps = 0;
    for (int i = 0; i < 16; ++i) steps += kSixteenth[i] < mantissa;
    return 16 * (exponent + octaves(bits)) + steps;
}

// How a row's scale is found: among all scales from `highest` down to `lowest` steps around an
// anchor, the one with the least squared error. The anchor is the smallest scale at which the row's
// largest number is within reach of the outermost code; for 2 bits, which clip much, the row's root
// mean square.
struct Search {
    int highest;
    int lowest;
};
[[gnu::always_inline]] constexpr Search search_of(int bits) {
    switch (bits) {
        case 8:
        case 7:
            return {0, -1};
        case 6:
            return {0, -3};
        case 5:
            return {5, -2};
        case 4:
            return {1, -5};
        case 3:
            return {0, -10};
        default:
            return {3, -5};
    }
}

// Reach of the outermost code in units of the scale: its level, or half a step more for integers.
[[gnu::always_inline]] constexpr float reach(int bits) {
    return is_lloyd(bits) ? lloyd_levels(bits)[magnitudes(bits) - 1]
                          : static_cast<float>(magnitudes(bits)) - 0.5f;
}

// A row with no number above this is a row of zeros: nothing but the innermost code is nearer.
[[gnu::always_inline]] constexpr float zero_below(int bits) {
    const float innermost = is_lloyd(bits) ? lloyd_levels(bits)[0] : 1.0f;
    return 0.5f * innermost * scale_of(bits, 1);
}

// Above it every scale saturates; the sum of squares of numbers below it does not overflow.
inline constexpr float kHuge = 0x1p20f;

// The Hadamard transform works on blocks of this many dimensions: the largest power of two that
// divides head_dim, at most 256.
[[gnu::always_inline]] constexpr uint32_t hadamard_block(uint32_t head_dim) {
    const uint32_t power = head_dim & (0 - head_dim);
    return power < 256 ? power : 256;
}
// 1 / sqrt(block), rounded to nearest.
[[gnu::always_inline]] constexpr float hadamard_norm(uint32_t block) {
    switch (block) {
        case 16:
            return 0.25f;
        case 32:
            return 0.176776695f;
        case 64:
            return 0.125f;
        case 128:
            return 0.0883883476f;
        default:
            return 0.0625f;
    }
}

}  // namespace quire::codec::hot
