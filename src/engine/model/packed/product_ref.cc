// The oracle: one output, one row, one input at a time, in the order that product.h states.
#include <cmath>

#include "engine/model/packed/gate_generic.h"
#include "engine/model/packed/product_isas.h"
#include "engine/model/packed/read_back.h"
#include "engine/model/packed/rows.h"
#include "engine/model/packed/rows_generic.h"

namespace quire::packed {
namespace {

struct Ref {
    static void store_values(const int32_t* values, RowBlock* out) {
        for (int i = 0; i < kInputs; ++i) out->values[i] = static_cast<int16_t>(values[i]);
    }
};

float multiply_one(const Product& p, int32_t slot, int64_t output) {
    const Layout& l = p.layout;
    const uint8_t* scales = as_bytes(p.group);
    const uint8_t* codes = scales + scales_bytes(l, p.n_in);
    float acc = 0;
    for (int64_t b = 0; b < blocks_of(p.n_in); ++b, codes += code_block_bytes(l.bits)) {
        const RowBlock& row = row_block(p.tile, b, slot);
        int32_t sum[2] = {};
        for (int i = 0; i < kInputs; ++i)
            sum[i / 16] += (code_at(l.bits, codes, output, i) - l.offset) * row.values[i];
        const float whole = static_cast<float>(sum[0] + sum[1]);
        const uint8_t* super = scales + static_cast<size_t>(b / 8) * super_bytes();
        const uint8_t* own = super + 64 + b % 8 * 32 + output;
        switch (l.scales) {
            case Scales::d:
                acc = std::fma(packed_half(scales + b * 32, output) * row.step, whole, acc);
                break;
            case Scales::dm:
                acc = std::fma(packed_half(scales + b * 64, output) * row.step, whole, acc);
                acc = std::fma(packed_half(scales + b * 64 + 32, output), row.sum, acc);
                break;
            case Scales::k:
                acc = std::fma(packed_half(super, output) * own[0] * row.step, whole, acc);
                acc = std::fma(-(packed_half(super + 32, output) * own[16]), row.sum, acc);
                break;
            case Scales::k6:
                for (int h = 0; h < 2; ++h)
                    acc = std::fma(
                        packed_half(super, output) * static_cast<int8_t>(own[16 * h]) * row.step,
                        static_cast<float>(sum[h]), acc);
                break;
        }
    }
    return acc;
}

}  // namespace

void ref_quantise_row(const float* in, int64_t n_in, std::byte* tile, int32_t slot) {
    generic::quantise<Ref>(in, n_in, tile, slot);
}

void ref_gate(Gate kind, const float* gate, const float* up, int64_t n, float* out) {
    generic::gate(kind, gate, up, n, out);
}

void ref_multiply(const Product& p) {
    for (int32_t r = 0; r < p.n_rows; ++r)
        for (int64_t o = 0; o < kOutputs; ++o) p.out[r * p.out_stride + o] = multiply_one(p, r, o);
}

}  // namespace quire::packed
