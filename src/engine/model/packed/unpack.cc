#include "engine/model/packed/pack.h"
#include "engine/model/packed/read_back.h"

namespace quire::packed {
namespace {

// A block's weights are  d (code - offset) + m,  d of each half of the inputs.
struct BlockScales {
    float d[2];
    float m;
};

BlockScales scales_of(const Layout& l, const uint8_t* scales, int64_t block, int64_t output) {
    const uint8_t* super = scales + static_cast<size_t>(block / 8) * super_bytes();
    const uint8_t* own = super + 64 + block % 8 * 32 + output;
    const auto both = [](float d, float m) { return BlockScales{{d, d}, m}; };
    switch (l.scales) {
        case Scales::d:
            break;
        case Scales::dm:
            return both(packed_half(scales + block * 64, output),
                        packed_half(scales + block * 64 + 32, output));
        case Scales::k:
            return both(packed_half(super, output) * own[0],
                        -(packed_half(super + 32, output) * own[16]));
        case Scales::k6:
            return {{packed_half(super, output) * static_cast<int8_t>(own[0]),
                     packed_half(super, output) * static_cast<int8_t>(own[16])},
                    0};
    }
    return both(packed_half(scales + block * 32, output), 0);
}

}  // namespace

void unpack_row(const Layout& layout, const std::byte* packed, int64_t n_in, int64_t row,
                float* out) {
    const uint8_t* scales =
        as_bytes(packed) + static_cast<size_t>(row / kOutputs) * group_bytes(layout, n_in);
    const uint8_t* codes = scales + scales_bytes(layout, n_in);
    const int64_t output = row % kOutputs;
    for (int64_t b = 0; b < blocks_of(n_in); ++b, codes += code_block_bytes(layout.bits)) {
        const BlockScales s = scales_of(layout, scales, b, output);
        for (int i = 0; i < kInputs; ++i) {
            const int32_t code = code_at(layout.bits, codes, output, i) - layout.offset;
            out[b * kInputs + i] = static_cast<float>(code) * s.d[i / 16] + s.m;
        }
    }
}

}  // namespace quire::packed
