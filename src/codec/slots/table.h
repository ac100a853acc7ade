// The Lloyd-Max tables of vLLM's solver for N(0, 1 / head_dim), positive halves; the negative ones
// mirror them. It starts from equal steps over 3.5 deviations each way and runs at most 200 rounds
// of the trapezoid rule with 200 steps between thresholds, the outermost of them at 10.5
// deviations: coarse enough to miss the fixed point, so that its very numbers are needed to read
// what it wrote. tests/python/slots_codec.py computes them again.
#pragma once

#include <cstdint>

namespace quire::codec::slots {

inline constexpr float kThree[4][4] = {
    {0.0433073901f, 0.133580521f, 0.237442926f, 0.380131692f},   // head_dim 32
    {0.0306229498f, 0.0944556892f, 0.167897508f, 0.268793702f},  // 64
    {0.021653695f, 0.0667902604f, 0.118721463f, 0.190065846f},   // 128
    {0.0153114749f, 0.0472278446f, 0.0839487538f, 0.134396851f}  // 256
};
inline constexpr float kFour[4][8] = {{0.022703018f, 0.0686137155f, 0.116121061f, 0.16660288f,
                                       0.222077057f, 0.286003798f, 0.365653247f, 0.48276341f},
                                      {0.0160534568f, 0.0485172234f, 0.0821099877f, 0.117806032f,
                                       0.157032192f, 0.202235222f, 0.258555889f, 0.341365278f},
                                      {0.011351509f, 0.0343068577f, 0.0580605306f, 0.0833014399f,
                                       0.111038528f, 0.143001899f, 0.182826623f, 0.241381705f},
                                      {0.00802672841f, 0.0242586117f, 0.0410549939f, 0.0589030161f,
                                       0.0785160959f, 0.101117611f, 0.129277945f, 0.170682639f}};

// All levels of a table, ascending, and its midpoints; 2^bits and one fewer.
struct Table {
    alignas(64) float level[16] = {};
    alignas(64) float midpoint[16] = {};
};

// REQUIRES: bits is 3 or 4, head_dim is 32, 64, 128 or 256.
[[gnu::always_inline]] constexpr Table table_of(uint32_t bits, uint32_t head_dim) {
    const int row = head_dim == 32 ? 0 : head_dim == 64 ? 1 : head_dim == 128 ? 2 : 3;
    const int half = 1 << (bits - 1);
    Table table;
    for (int i = 0; i < half; ++i) {
        const float level = bits == 3 ? kThree[row][i] : kFour[row][i];
        table.level[half + i] = level;
        table.level[half - 1 - i] = -level;
    }
    for (int i = 0; i + 1 < 2 * half; ++i)
        table.midpoint[i] = (table.level[i] + table.level[i + 1]) / 2;
    return table;
}

}  // namespace quire::codec::slots
