// Lloyd-Max levels of a coordinate of a random point of the unit sphere in head_dim dimensions,
// times sqrt(head_dim), positive halves; the negative ones mirror them. By Newton's method on "a
// level is the mean of the density between its midpoints", printed with 9 digits.
#pragma once

#include <cstdint>

namespace quire::codec::turbo {

struct Levels {
    uint32_t head_dim;
    float one[1];
    float two[2];
    float three[4];
    float four[8];
};

inline constexpr Levels kLevels[] = {
    {64,
     {0.801007271f},
     {0.452118963f, 1.49997485f},
     {0.243753433f, 0.750658095f, 1.32934284f, 2.11131144f},
     {0.127352178f, 0.384718269f, 0.650494158f, 0.931894004f, 1.2394042f, 1.59084916f, 2.02330971f,
      2.64637041f}},
    {80,
     {0.80038178f},
     {0.45225358f, 1.50206125f},
     {0.24402225f, 0.751726508f, 1.33223867f, 2.11933756f},
     {0.127560452f, 0.385382742f, 0.65174216f, 0.933970332f, 1.24273932f, 1.59622145f, 2.03229952f,
      2.66321921f}},
    {96,
     {0.799965084f},
     {0.452342659f, 1.5034529f},
     {0.244201288f, 0.752439141f, 1.33417416f, 2.12471604f},
     {0.12769939f, 0.385826141f, 0.652575612f, 0.935358167f, 1.24497116f, 1.59982157f, 2.03833437f,
      2.67456007f}},
    {112,
     {0.799667537f},
     {0.452405959f, 1.5044471f},
     {0.24432908f, 0.752948225f, 1.33555901f, 2.12857175f},
     {0.127798662f, 0.386143088f, 0.653171599f, 0.93635124f, 1.24656951f, 1.60240221f, 2.04266572f,
      2.68271422f}},
    {128,
     {0.799444437f},
     {0.452453256f, 1.505193f},
     {0.24442488f, 0.753330171f, 1.33659887f, 2.13147092f},
     {0.127873152f, 0.386380911f, 0.653618932f, 0.937097013f, 1.24777043f, 1.6043427f, 2.04592538f,
      2.68885922f}},
    {192,
     {0.798924148f},
     {0.452563018f, 1.50693381f},
     {0.244648218f, 0.754221559f, 1.33902967f, 2.1382606f},
     {0.128047019f, 0.386936218f, 0.65466398f, 0.938840389f, 1.25058019f, 1.60888708f, 2.05356932f,
      2.70329642f}},
    {256,
     {0.798664153f},
     {0.452617586f, 1.50780451f},
     {0.244759798f, 0.754667342f, 1.34024727f, 2.14166856f},
     {0.128133982f, 0.387214035f, 0.65518713f, 0.939713717f, 1.25198901f, 1.61116815f, 2.05741119f,
      2.710567f}},
};

// REQUIRES: bits is 1 to 4. null: no table for that head_dim.
constexpr const float* levels_of(uint32_t bits, uint32_t head_dim) {
    for (const Levels& levels : kLevels)
        if (levels.head_dim == head_dim)
            return bits == 1   ? levels.one
                   : bits == 2 ? levels.two
                   : bits == 3 ? levels.three
                               : levels.four;
    return nullptr;
}

}  // namespace quire::codec::turbo
