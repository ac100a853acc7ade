// Tables that move eight bytes by a mask of eight bits: for pshufb.
#pragma once

#include <array>
#include <cstdint>

namespace quire::codec::bx {

using ByteMoves = std::array<std::array<uint8_t, 8>, 256>;

// The bytes whose bit is set, to the front; what is behind them does not matter.
inline constexpr ByteMoves kCompress = [] {
    ByteMoves moves{};
    for (uint32_t mask = 0; mask < 256; ++mask) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < 8; ++i)
            if ((mask >> i & 1) != 0) moves[mask][n++] = static_cast<uint8_t>(i);
    }
    return moves;
}();

// The first bytes, each to the next bit that is set; zero elsewhere.
inline constexpr ByteMoves kExpand = [] {
    ByteMoves moves{};
    for (uint32_t mask = 0; mask < 256; ++mask) {
        uint8_t n = 0;
        for (uint32_t i = 0; i < 8; ++i) moves[mask][i] = (mask >> i & 1) != 0 ? n++ : 0x80;
    }
    return moves;
}();

}  // namespace quire::codec::bx
