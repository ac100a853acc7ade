// include/quire/kernels.h over the kernels of this folder: the same numbers in other structs.
#include <algorithm>
#include <cstring>

#include "codec/hot/layout.h"
#include "kernels/cuda/attn/cascade.h"
#include "kernels/cuda/attn/merge_states.h"
#include "kernels/cuda/attn/prefill.h"
#include "kernels/cuda/encode.h"
#include "kernels/cuda/mla/mla.h"
#include "kernels/cuda/page_check.h"
#include "quire/kernels.h"

namespace quire::kernels::cuda {
namespace {

constexpr const char* kNoStruct = "the struct is null, or its struct_bytes is not set";

// A struct of a caller that may have been built with an older header, which has fewer fields.
template <class Params>
bool read(const Params* from, Params* to) {
    if (from == nullptr || from->struct_bytes < sizeof from->struct_bytes) return false;
    std::memset(to, 0, sizeof *to);
    std::memcpy(to, from, std::min(from->struct_bytes, sizeof *to));
    return true;
}

const char* check_page_numbers(int32_t numbers) {
    return numbers == 0 || numbers == QUIRE_F16 || numbers == QUIRE_BF16
               ? nullptr
               : "page_numbers must be 0, QUIRE_F16 or QUIRE_BF16";
}
const char* check_element(int32_t element) {
    return element >= QUIRE_F32 && element <= QUIRE_BF16
               ? nullptr
               : "element must be QUIRE_F32, QUIRE_F16 or QUIRE_BF16";
}

EncodeParams to_params(const quire_encode& c) {
    EncodeParams p;
    p.k = {c.k, c.k_token_stride, c.k_head_stride, c.k_mean, c.k_bits};
    p.v = {c.v, c.v_token_stride, c.v_head_stride, c.v_mean, c.v_bits};
    p.element = static_cast<Numbers>(c.element);
    p.n_tokens = c.n_tokens;
    p.kv_heads = c.kv_heads;
    p.head_dim = c.head_dim;
    p.block_tokens = c.block_tokens;
    p.slots = c.slots;
    p.pages = static_cast<std::byte*>(c.pages);
    p.n_blocks = c.n_blocks;
    p.block_stride = c.block_stride;
    p.head_stride = c.head_stride;
    p.not_finite = c.not_finite;
    return p;
}

PagesHold pages_hold(int32_t page_numbers) {
    switch (page_numbers) {
        case QUIRE_F16:
            return PagesHold::f16;
        case QUIRE_BF16:
            return PagesHold::bf16;
        case QUIRE_FP8_E4M3:
            return PagesHold::fp8_e4m3;
        case QUIRE_FP8_E5M2:
            return PagesHold::fp8_e5m2;
        default:
            return PagesHold::codes;
    }
}

// What structs of attention over pages have in common.
template <class Params, class CParams>
Params to_attention(const CParams& c) {
    Params p;
    p.q = c.q;
    p.q_token_stride = c.q_token_stride;
    p.q_head_stride = c.q_head_stride;
    p.out = c.out;
    p.out_token_stride = c.out_token_stride;
    p.out_head_stride = c.out_head_stride;
    p.lse = c.lse;
    p.element = static_cast<Numbers>(c.element);
    p.n_requests = c.n_requests;
    p.n_heads = c.n_heads;
    p.kv_heads = c.kv_heads;
    p.head_dim = c.head_dim;
    p.block_tokens = c.block_tokens;
    p.window = c.window;
    p.scale = c.scale;
    p.softcap = c.softcap;
    p.lengths = c.lengths;
    p.blocks = c.blocks;
    p.table_stride = c.table_stride;
    p.pages = static_cast<const std::byte*>(c.pages);
    p.block_stride = c.block_stride;
    p.head_stride = c.head_stride;
    p.pages_hold = pages_hold(c.page_numbers);
    p.k_bits = c.k_bits;
    p.v_bits = c.v_bits;
    p.v_mean = c.v_mean;
    p.workspace = c.workspace;
    return p;
}

DecodeParams to_params(const quire_decode& c) {
    auto p = to_attention<DecodeParams>(c);
    p.n_queries = c.n_queries;
    p.scaling = static_cast<quire::codec::fp8::Scaling>(c.page_scaling);
    p.k_scales = c.k_scales;
    p.v_scales = c.v_scales;
    p.all_keys = c.all_keys != 0;
    p.n_blocks = c.n_blocks;
    return p;
}

PrefillParams to_params(const quire_prefill& c) {
    auto p = to_attention<PrefillParams>(c);
    p.n_tokens = c.n_tokens;
    p.first_tokens = c.first_tokens;
    p.causal = c.all_keys == 0;
    return p;
}

// REQUIRES: own is of c.
CascadeParams to_params(const quire_cascade& c, const DecodeParams& own) {
    return {own,
            c.n_groups,
            c.first_requests,
            c.prefix_lengths,
            c.prefix_blocks,
            c.prefix_table_stride,
            c.workspace};
}

MlaParams to_params(const quire_mla& c) {
    MlaParams p;
    p.q = c.q;
    p.q_token_stride = c.q_token_stride;
    p.q_head_stride = c.q_head_stride;
    p.out = c.out;
    p.out_token_stride = c.out_token_stride;
    p.out_head_stride = c.out_head_stride;
    p.out_element = static_cast<Numbers>(c.out_element);
    p.lse = c.lse;
    p.n_requests = c.n_requests;
    p.n_queries = c.n_queries;
    p.n_heads = c.n_heads;
    p.block_tokens = c.block_tokens;
    p.scale = c.scale;
    p.lengths = c.lengths;
    p.blocks = c.blocks;
    p.table_stride = c.table_stride;
    p.lists = c.lists;
    p.list_stride = c.list_stride;
    p.rows = static_cast<MlaRows>(c.rows);
    p.pages = static_cast<const std::byte*>(c.pages);
    p.n_blocks = c.n_blocks;
    p.block_stride = c.block_stride;
    p.workspace = c.workspace;
    return p;
}

MergeParams to_params(const quire_merge& c) {
    static_assert(kMergePartsMax == QUIRE_MERGE_PARTS_MAX);
    MergeParams p;
    for (int32_t i = 0; i < kMergePartsMax; ++i)
        p.parts[i] = {c.part_out[i], c.part_lse[i], c.part_token_stride[i], c.part_head_stride[i]};
    p.n_parts = c.n_parts;
    p.n_tokens = c.n_tokens;
    p.n_heads = c.n_heads;
    p.head_dim = c.head_dim;
    p.parts_element = static_cast<Numbers>(c.part_element);
    p.element = static_cast<Numbers>(c.element);
    p.out = c.out;
    p.token_stride = c.token_stride;
    p.head_stride = c.head_stride;
    p.lse = c.lse;
    return p;
}

// The params and why they are not taken.
template <class Params>
struct Checked {
    Params params;
    const char* why = nullptr;
};
Checked<EncodeParams> check(const quire_encode* from) {
    quire_encode c;
    if (!read(from, &c)) return {{}, kNoStruct};
    const EncodeParams p = to_params(c);
    const char* why = check_element(c.element);
    return {p, why != nullptr ? why : encode_supports(p)};
}
Checked<DecodeParams> check(const quire_decode* from) {
    quire_decode c;
    if (!read(from, &c)) return {{}, kNoStruct};
    const DecodeParams p = to_params(c);
    const char* why = check_element(c.element);
    if (why == nullptr && (c.page_numbers < 0 || c.page_numbers > QUIRE_FP8_E5M2))
        why = "page_numbers must be 0, QUIRE_F16, QUIRE_BF16, QUIRE_FP8_E4M3 or QUIRE_FP8_E5M2";
    if (why == nullptr && (c.page_scaling < QUIRE_SCALE_ONE || c.page_scaling > QUIRE_SCALE_TOKEN))
        why = "page_scaling must be QUIRE_SCALE_ONE, QUIRE_SCALE_HEAD or QUIRE_SCALE_TOKEN";
    return {p, why != nullptr ? why : decode_supports(p)};
}
Checked<PrefillParams> check(const quire_prefill* from) {
    quire_prefill c;
    if (!read(from, &c)) return {{}, kNoStruct};
    const PrefillParams p = to_params(c);
    const char* why = check_element(c.element);
    if (why == nullptr) why = check_page_numbers(c.page_numbers);
    return {p, why != nullptr ? why : prefill_supports(p)};
}
Checked<CascadeParams> check(const quire_cascade* from) {
    quire_cascade c;
    quire_decode own;
    if (!read(from, &c) || !read(c.own, &own)) return {{}, kNoStruct};
    const CascadeParams p = to_params(c, to_params(own));
    const char* why = check_element(own.element);
    if (why == nullptr) why = check_page_numbers(own.page_numbers);
    return {p, why != nullptr ? why : cascade_supports(p)};
}
Checked<MlaParams> check(const quire_mla* from) {
    quire_mla c;
    if (!read(from, &c)) return {{}, kNoStruct};
    const MlaParams p = to_params(c);
    const char* why = check_element(c.out_element);
    if (why == nullptr && (c.rows < QUIRE_MLA_BF16 || c.rows > QUIRE_MLA_V4))
        why = "rows must be QUIRE_MLA_BF16, QUIRE_MLA_V32 or QUIRE_MLA_V4";
    return {p, why != nullptr ? why : mla_supports(p)};
}

Checked<MergeParams> check(const quire_merge* from) {
    quire_merge c;
    if (!read(from, &c)) return {{}, kNoStruct};
    const MergeParams p = to_params(c);
    const char* why = check_element(c.element);
    if (why == nullptr) why = check_element(c.part_element);
    return {p, why != nullptr ? why : merge_states_supports(p)};
}

CUstream_st* to_stream(void* stream) {
    return static_cast<CUstream_st*>(stream);
}

}  // namespace
}  // namespace quire::kernels::cuda

using namespace quire::kernels::cuda;

extern "C" {

int32_t quire_kernels_abi(void) {
    return QUIRE_KERNELS_ABI;
}

size_t quire_page_bytes(int32_t head_dim, int32_t block_tokens, int32_t k_bits, int32_t v_bits) {
    namespace hot = quire::codec::hot;
    const bool good = head_dim > 0 && head_dim % 16 == 0 && k_bits >= hot::kMinBits &&
                      k_bits <= hot::kMaxBits && v_bits >= hot::kMinBits &&
                      v_bits <= hot::kMaxBits && check_block_tokens(block_tokens) == nullptr;
    return good ? hot::page_bytes({k_bits, v_bits, static_cast<uint32_t>(head_dim),
                                   static_cast<uint32_t>(block_tokens)})
                : 0;
}

const char* quire_encode_supports(const quire_encode* params) {
    return check(params).why;
}
int quire_encode_queue(const quire_encode* params, void* stream) {
    const auto checked = check(params);
    return checked.why != nullptr ? QUIRE_UNSUPPORTED : encode(checked.params, to_stream(stream));
}

const char* quire_decode_supports(const quire_decode* params) {
    return check(params).why;
}
size_t quire_decode_workspace_bytes(const quire_decode* params) {
    quire_decode c;
    const int32_t blocks = decode_blocks();
    if (blocks <= 0 || !read(params, &c) || c.kv_heads < 1 || c.n_requests < 0) return 0;
    return decode_workspace_bytes(to_params(c), blocks);
}
int quire_decode_queue(const quire_decode* params, void* stream) {
    const auto checked = check(params);
    if (checked.why != nullptr) return QUIRE_UNSUPPORTED;
    const int32_t blocks = decode_blocks();
    return blocks < 0 ? -blocks : decode(checked.params, blocks, to_stream(stream));
}

const char* quire_prefill_supports(const quire_prefill* params) {
    return check(params).why;
}
size_t quire_prefill_workspace_bytes(const quire_prefill* params) {
    quire_prefill c;
    const int32_t blocks = decode_blocks();
    if (blocks <= 0 || !read(params, &c) || c.kv_heads < 1 || c.n_requests < 0) return 0;
    return prefill_workspace_bytes(to_params(c), blocks);
}
int quire_prefill_queue(const quire_prefill* params, void* stream) {
    const auto checked = check(params);
    if (checked.why != nullptr) return QUIRE_UNSUPPORTED;
    const int32_t blocks = decode_blocks();
    return blocks < 0 ? -blocks : prefill(checked.params, blocks, to_stream(stream));
}

const char* quire_cascade_supports(const quire_cascade* params) {
    return check(params).why;
}
size_t quire_cascade_workspace_bytes(const quire_cascade* params) {
    quire_cascade c;
    quire_decode own;
    const int32_t blocks = decode_blocks();
    if (blocks <= 0 || !read(params, &c) || !read(c.own, &own) || own.kv_heads < 1 ||
        own.n_requests < 0 || c.n_groups < 0)
        return 0;
    return cascade_workspace_bytes(to_params(c, to_params(own)), blocks);
}
int quire_cascade_queue(const quire_cascade* params, void* stream) {
    const auto checked = check(params);
    if (checked.why != nullptr) return QUIRE_UNSUPPORTED;
    const int32_t blocks = decode_blocks();
    return blocks < 0 ? -blocks : cascade(checked.params, blocks, to_stream(stream));
}

const char* quire_mla_supports(const quire_mla* params) {
    return check(params).why;
}
size_t quire_mla_workspace_bytes(const quire_mla* params) {
    quire_mla c;
    const int32_t workers = mla_workers();
    if (workers <= 0 || !read(params, &c) || c.n_heads < 1 || c.n_requests < 0) return 0;
    return mla_workspace_bytes(to_params(c), workers);
}
int quire_mla_queue(const quire_mla* params, void* stream) {
    const auto checked = check(params);
    if (checked.why != nullptr) return QUIRE_UNSUPPORTED;
    const int32_t workers = mla_workers();
    return workers < 0 ? -workers : mla_decode(checked.params, workers, to_stream(stream));
}

const char* quire_merge_supports(const quire_merge* params) {
    return check(params).why;
}
int quire_merge_queue(const quire_merge* params, void* stream) {
    const auto checked = check(params);
    return checked.why != nullptr ? QUIRE_UNSUPPORTED
                                  : merge_states(checked.params, to_stream(stream));
}

}  // extern "C"
