#include <initializer_list>

#include "codec/fp4/fp4.h"
#include "codec/slots/slots.h"
#include "kernels/cuda/codec/rows_check.h"
#include "kernels/cuda/encode_interop.h"

namespace quire::kernels::cuda {
namespace {

int64_t page_bytes(const EncodeInteropParams& p) {
    const auto head_dim = static_cast<uint32_t>(p.head_dim);
    const auto tokens = static_cast<uint32_t>(p.block_tokens);
    if (p.format == InteropFormat::nvfp4) {
        codec::Geometry g;
        g.head_dim = head_dim;
        g.block_tokens = tokens;
        return static_cast<int64_t>(2 * codec::fp4::side_bytes(codec::fp4::Kind::nvfp4, g));
    }
    const uint32_t k_bits = p.format == InteropFormat::turboquant_k8v4      ? 8
                            : p.format == InteropFormat::turboquant_4bit_nc ? 4
                                                                            : 3;
    const uint32_t v_bits = p.format == InteropFormat::turboquant_3bit_nc ? 3 : 4;
    const codec::slots::Shape shape = {head_dim, tokens, k_bits, v_bits, false};
    return int64_t{shape.slot_bytes()} * tokens;
}

}  // namespace

const char* encode_interop_supports(const EncodeInteropParams& p) {
    if (const char* why = check_head_dim(p.head_dim)) return why;
    if (const char* why = check_block_tokens(p.block_tokens)) return why;
    if (p.kv_heads < 1 || p.kv_heads > 65535) return "kv_heads must be 1 to 65535";
    if (p.n_tokens < 0) return "n_tokens must not be negative";
    const bool is_fp4 = p.format == InteropFormat::nvfp4;
    if (!is_fp4 && p.head_dim != 64 && p.head_dim != 128 && p.head_dim != 256)
        return "slots need a head_dim of 64, 128 or 256";
    if (p.n_tokens == 0) return nullptr;
    if (p.slots == nullptr || p.pages == nullptr) return "slots and pages must be given";
    for (const FloatRows* rows : {&p.k, &p.v}) {
        if (rows->rows == nullptr) continue;
        if (is_fp4 && (rows->scales == nullptr || !is_aligned(rows->scales, 4)))
            return "scales of heads must be given";
        if (const char* why = check_rows(p, *rows)) return why;
    }
    return check_pages(p, page_bytes(p));
}

}  // namespace quire::kernels::cuda
