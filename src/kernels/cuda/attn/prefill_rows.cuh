// Query rows of a prefill on their way in and out.
#pragma once

#include "kernels/cuda/attn/merge.cuh"
#include "kernels/cuda/attn/prefill_plan.h"
#include "kernels/cuda/ptx/lane_copy.cuh"

namespace quire::kernels::cuda {

// Where a row of an item is: its token of q and its head.
struct RowPlace {
    int64_t token;
    int32_t head;
    bool exists;

    __device__ RowPlace(const PrefillPlan& plan, const PrefillItem& item, int32_t kv_head,
                        int32_t row) {
        const PrefillParams& p = plan.p;
        const int32_t of_request = item.first_row + row, query = of_request / plan.group;
        exists = query < queries_of(p, item.request);
        token = int64_t{p.first_tokens[item.request]} * p.tokens_each + query;
        head = kv_head * plan.group + of_request - query * plan.group;
    }
};

// Word i of four, each two numbers, of dimensions [dim, dim + 8) of a row: byte in the row's narrow
// tiles, whose order is that of prefill_expand.cuh for codes.
struct QueryWord {
    uint32_t vector, byte;
};
template <PagesHold kHold>
__device__ __forceinline__ QueryWord query_word(int32_t k_bits, uint32_t dim, uint32_t i) {
    const uint32_t half = dim / 8 % 2, step = dim / 16 % 2;
    if (kHold != PagesHold::codes) return {2 * step + half, 4 * i};
    if (k_bits == 8) return {i, 8 * step + 4 * half};
    return {2 * half + i / 2, 8 * step + 4 * (i % 2)};
}

// A vector of a row in narrow tiles of 64 rows at `to`.
__device__ __forceinline__ uint32_t query_vector(uint32_t to, uint32_t row, uint32_t tile,
                                                 uint32_t vector) {
    return to + tile * (64 * 64) + row * 64 + (vector ^ row / 2 % 4) * 16;
}

// A warp's 16 rows of the item, in the codec's space, as the first operand at `to`: narrow tiles of
// its warpgroup's 64 rows. Numbers of 16 bits come to where they will be by copies that are all
// under way at once, and change places and values there. Rows that there are not are of anything.
template <int kHeadDim, PagesHold kHold>
__device__ __forceinline__ void load_queries(const PrefillPlan& plan, const PrefillItem& item,
                                             int32_t kv_head, uint32_t to) {
    using Rows = RowsOfWarp<kHeadDim>;
    const PrefillParams& p = plan.p;
    const auto warp = static_cast<int32_t>(threadIdx.x / 32);
    const auto dim = static_cast<uint32_t>(Rows::dim());
    const auto number_of = [&](int32_t row) {
        const RowPlace place(plan, item, kv_head, warp * 16 + row);
        return place.exists ? place.token * p.q_token_stride + place.head * p.q_head_stride + dim
                            : int64_t{-1};
    };
    const bool copied = p.element != Numbers::f32;
    if (copied) {
#pragma unroll 1
        for (int32_t i = Rows::row(); i < 16; i += Rows::kAtOnce) {
            const int64_t at = number_of(i);
            if (!Rows::works() || at < 0) continue;
            copy_16(
                query_vector(to, static_cast<uint32_t>(warp % 4 * 16 + i), dim / 32, dim / 8 % 4),
                static_cast<const std::byte*>(p.q) + at * 2);
        }
        end_lot_of_copies();
        wait_for_lots_but<0>();
        __syncwarp();
    }
#pragma unroll 1
    for (int32_t i = 0; i < 16; i += Rows::kAtOnce) {
        const int32_t of = min(i + Rows::row(), 15);
        const auto row = static_cast<uint32_t>(warp % 4 * 16 + of);
        RawEight raw{};
        if (copied) {
            raw.low = load_shared_16(query_vector(to, row, dim / 32, dim / 8 % 4));
        } else if (const int64_t at = number_of(of); at >= 0) {
            raw = load_eight(p.q, p.element, at);
        }
        float x[8];
        numbers_of(raw, p.element, x);
        if constexpr (kHold == PagesHold::codes) Rows::rotate(x);
        __syncwarp();  // everybody has read what is about to be written over
        if (!Rows::works() || i + Rows::row() >= 16) continue;
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) {
            const QueryWord word = query_word<kHold>(p.k_bits, dim, k);
            store_shared(query_vector(to, row, dim / 32, word.vector) + word.byte,
                         number_pair(kHold == PagesHold::bf16, x[2 * k] * plan.q_norm,
                                     x[2 * k + 1] * plan.q_norm));
        }
    }
}

// Sums over codes come in the order of rows of V's tiles, column 4b + a of 16 for dimension 4a + b
// (prefill_expand.cuh), which the transform does not mind: an order of the bits of its indices.
// From columns 8h to + 7 of a lane to dimensions 8h to + 7; the other half is the next lane's.
__device__ __forceinline__ void order_dims(float (&x)[8]) {
    const bool high = threadIdx.x % 2 == 1;
    float own[4], others[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const float low_half = x[k / 2 + 4 * (k % 2)], high_half = x[2 + k / 2 + 4 * (k % 2)];
        own[k] = high ? high_half : low_half;
        others[k] = __shfl_xor_sync(0xffffffff, high ? low_half : high_half, 1);
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        x[k / 2 * 4 + k % 2] = high ? others[k] : own[k];
        x[k / 2 * 4 + 2 + k % 2] = high ? own[k] : others[k];
    }
}

struct RowSpan {
    int32_t begin, end;
};
// Rows of an item, of which part(i) has partial results, to out. All warps of kWarps.
template <int kHeadDim, int kWarps, class Part>
__device__ __forceinline__ void write_rows(const PrefillPlan& plan, const PrefillItem& item,
                                           int32_t kv_head, RowSpan span, int32_t parts,
                                           Part part) {
    using Rows = RowsOfWarp<kHeadDim>;
    const PrefillParams& p = plan.p;
    const bool codes = p.pages_hold == PagesHold::codes;
#pragma unroll 1
    for (int32_t first = span.begin + static_cast<int32_t>(threadIdx.x / 32) * Rows::kAtOnce;
         first < span.end; first += kWarps * Rows::kAtOnce) {
        const int32_t row = min(first + Rows::row(), span.end - 1);
        RowSums sums = merge_row<kHeadDim, kPrefillRows, 4>(parts, part, row);
        finish_row<kHeadDim>(codes, plan.out_norm, sums.eight, sums.weight);
        if (codes) order_dims(sums.eight);
        add_mean<kHeadDim>(p.v_mean, kv_head, sums.eight, sums.weight);
        const RowPlace place(plan, item, kv_head, row);
        if (!Rows::works() || first + Rows::row() >= span.end || !place.exists) continue;
        store_eight(p.out, p.element,
                    place.token * p.out_token_stride + place.head * p.out_head_stride + Rows::dim(),
                    sums.eight);
        if (Rows::dim() == 0 && p.lse != nullptr)
            p.lse[place.token * p.n_heads + place.head] = natural_lse(sums.top, sums.weight);
    }
}

}  // namespace quire::kernels::cuda
