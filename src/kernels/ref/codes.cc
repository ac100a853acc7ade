#include "kernels/ref/codes.h"

#include "codec/hot/scale.h"

namespace quire::kernels::ref {
namespace {

namespace hot = codec::hot;

hot::Shape shape_of(const AttnShape& shape) {
    return {shape.codes.k_bits, shape.codes.v_bits, static_cast<uint32_t>(shape.head_dim),
            static_cast<uint32_t>(shape.block_tokens)};
}

int read_code(const std::byte* side, const hot::Shape& s, int bits, const hot::Place& place) {
    int code = 0;
    const hot::Planes planes = hot::planes_of(bits);
    for (int p = 0; p < planes.count; ++p) {
        const int width = planes.width[p];
        const int byte = static_cast<int>(
            side[hot::plane_offset(s, bits, p) + hot::byte_in_plane(width, place)]);
        const int value = byte >> hot::bit_in_byte(width, place) & ((1 << width) - 1);
        code |= value << hot::plane_shift(bits, p);
    }
    return code;
}

CodedNumber number(int bits, int code, std::byte scale) {
    const int half = hot::magnitudes(bits);
    CodedNumber n;
    n.scale = hot::decode_scale(bits, static_cast<uint8_t>(scale));
    if (hot::is_lloyd(bits)) {
        n.stored = code < half ? -hot::lloyd_levels(bits)[half - 1 - code]
                               : hot::lloyd_levels(bits)[code - half];
    } else {
        n.stored = static_cast<float>(code);
        n.offset = static_cast<float>(half);
    }
    return n;
}

}  // namespace

CodedNumber coded_k(const AttnShape& shape, const std::byte* page, int token, int d) {
    const hot::Shape s = shape_of(shape);
    const int code = read_code(page + hot::k_offset(s), s, s.k_bits, hot::k_place(s, token, d));
    return number(s.k_bits, code, page[hot::k_scales_offset(s) + token]);
}

CodedNumber coded_v(const AttnShape& shape, const std::byte* page, int token, int d) {
    const hot::Shape s = shape_of(shape);
    const int code = read_code(page + hot::v_offset(s), s, s.v_bits, hot::v_place(s, token, d));
    return number(s.v_bits, code, page[hot::v_scales_offset(s) + token]);
}

void rotate(float* row, int head_dim) {
    const int block = static_cast<int>(hot::hadamard_block(static_cast<uint32_t>(head_dim)));
    for (float* x = row; x < row + head_dim; x += block) {
        for (int h = 1; h < block; h *= 2) {
            for (int i = 0; i < block; ++i) {
                if ((i & h) != 0) continue;
                const float a = x[i], b = x[i + h];
                x[i] = a + b;
                x[i + h] = a - b;
            }
        }
        for (int i = 0; i < block; ++i) x[i] *= hot::hadamard_norm(static_cast<uint32_t>(block));
    }
}

}  // namespace quire::kernels::ref
