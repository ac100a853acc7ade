#include "kernels/ref/attention.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/attention_math.h"
#include "kernels/attention_plan.h"
#include "kernels/ref/half.h"

namespace quire::kernels::ref {
namespace {

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
constexpr int kMaxHeadDim = 256;

// The page of one (block, KV head), as 16-bit numbers.
struct Page {
    const uint16_t* data;
    const AttnShape& shape;

    float k(int token, int d) const {
        return to_f32(shape.element, data[d * shape.block_tokens + token]);
    }
    float v(int token, int d) const {
        return to_f32(shape.element, data[(shape.block_tokens + token) * shape.head_dim + d]);
    }
};

// One output row: one query head at one position.
struct Row {
    const AttnShape& shape;
    const AttnSequence& sequence;
    int kv_head;
    int position;
    const float* q;

    int first_key() const { return visible_keys(shape, position, 1).begin; }
    bool sees(int key) const { return key >= first_key() && key <= position; }
    Page page(int key) const {
        const std::byte* slab = sequence.slabs[key / shape.block_tokens];
        return {reinterpret_cast<const uint16_t*>(slab + shape.layer_offset +
                                                  kv_head * shape.page_bytes),
                shape};
    }
};

// A softmax-weighted sum of V rows: sum of exp2(score - max) * v, and of exp2(score - max).
struct Weighted {
    float max = kMinusInf;
    float sum = 0.0f;
    std::array<float, kMaxHeadDim> out{};
};

// A row that has seen nothing yet has max == -inf; subtract 0 instead, exp2(-inf - 0) == 0.
float finite_max(float max) {
    return max == kMinusInf ? 0.0f : max;
}

// Base-2 score of one visible key: a chain of fused multiply-adds over d ascending.
float score(const Row& row, int key) {
    const AttnShape& shape = row.shape;
    const float scale = shape.softcap > 0.0f ? shape.scale / shape.softcap : shape.scale * kLog2e;
    const Page page = row.page(key);
    float s = 0.0f;
    for (int d = 0; d < shape.head_dim; ++d)
        s = std::fma(row.q[d] * scale, page.k(key % shape.block_tokens, d), s);
    return shape.softcap > 0.0f ? tanh_via_exp2(s) * (shape.softcap * kLog2e) : s;
}

// Sixteen numbers to one: halves are added, 8 + 8, 4 + 4, 2 + 2, 1 + 1.
float sum_lanes(std::array<float, kLaneSums> lanes) {
    for (int half = kLaneSums / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    return lanes[0];
}

// One partition, reduced from nothing, tile by tile.
Weighted reduce_partition(const Row& row, int partition) {
    Weighted w;
    std::array<float, kLaneSums> sums{};
    const int begin = partition * kPartitionTokens;
    for (int tile = begin; tile < begin + kPartitionTokens; tile += kKeyTileTokens) {
        if (tile > row.position || tile + kKeyTileTokens <= row.first_key()) continue;
        std::array<float, kKeyTileTokens> p;
        float max = w.max;
        for (int j = 0; j < kKeyTileTokens; ++j) {
            p[j] = row.sees(tile + j) ? score(row, tile + j) : kMinusInf;
            max = std::max(max, p[j]);
        }
        // The maximum moves once a tile.
        const float correction = exp2_nonpositive(w.max - finite_max(max));
        for (float& x : p) x = exp2_nonpositive(x - finite_max(max));
        for (int i = 0; i < kLaneSums; ++i)
            sums[i] = std::fma(sums[i], correction, ((p[i] + p[i + 16]) + p[i + 32]) + p[i + 48]);
        for (int d = 0; d < row.shape.head_dim; ++d) {
            float out = w.out[d] * correction;
            for (int j = 0; j < kKeyTileTokens; ++j)
                if (row.sees(tile + j))
                    out = std::fma(
                        p[j], row.page(tile + j).v((tile + j) % row.shape.block_tokens, d), out);
            w.out[d] = out;
        }
        w.max = max;
    }
    w.sum = sum_lanes(sums);
    return w;
}

void merge(Weighted& total, const Weighted& part, int head_dim) {
    const float max = std::max(total.max, part.max);
    const float old_weight = exp2_nonpositive(total.max - finite_max(max));
    const float new_weight = exp2_nonpositive(part.max - finite_max(max));
    total.sum = std::fma(part.sum, new_weight, total.sum * old_weight);
    for (int d = 0; d < head_dim; ++d)
        total.out[d] = std::fma(part.out[d], new_weight, total.out[d] * old_weight);
    total.max = max;
}

void attend_row(const Row& row, float* out) {
    Weighted total;
    for (int p = row.first_key() / kPartitionTokens; p <= row.position / kPartitionTokens; ++p)
        merge(total, reduce_partition(row, p), row.shape.head_dim);
    const float inverse = 1.0f / total.sum;
    // Adding +0 turns -0 into +0: the sign of a zero is the one thing that hidden keys could
    // change.
    for (int d = 0; d < row.shape.head_dim; ++d) out[d] = std::fma(total.out[d], inverse, 0.0f);
}

void run(const AttnBatch& batch, int, int) {
    const AttnShape& shape = batch.shape;
    const int group = shape.n_heads / shape.n_kv_heads;
    int32_t ticket = batch.cursor->fetch_add(1, std::memory_order_relaxed);
    int32_t first = 0;  // ticket of the sequence's first row; a ticket is one row, all heads
    for (const AttnSequence& s : batch.sequences) {
        for (; ticket < first + s.n_rows;
             ticket = batch.cursor->fetch_add(1, std::memory_order_relaxed)) {
            const int r = ticket - first;
            for (int h = 0; h < shape.n_heads; ++h) {
                const int64_t column = int64_t{h} * shape.head_dim;
                const Row row{shape, s, h / group, s.first_pos + r,
                              s.q + r * s.q_row_stride + column};
                attend_row(row, s.out + r * s.out_row_stride + column);
            }
        }
        first += s.n_rows;
    }
}

void store_rows(const AttnShape& shape, const StoreSequence& s, int32_t kv_head, int32_t row_begin,
                int32_t row_end) {
    for (int32_t r = row_begin; r < row_end; ++r) {
        const int32_t position = s.first_pos + r, token = position % shape.block_tokens;
        std::byte* slab = s.slabs[position / shape.block_tokens];
        auto* page =
            reinterpret_cast<uint16_t*>(slab + shape.layer_offset + kv_head * shape.page_bytes);
        const float* k = s.k + r * s.k_row_stride + int64_t{kv_head} * shape.head_dim;
        const float* v = s.v + r * s.v_row_stride + int64_t{kv_head} * shape.head_dim;
        for (int d = 0; d < shape.head_dim; ++d) {
            page[d * shape.block_tokens + token] = from_f32(shape.element, k[d]);
            page[(shape.block_tokens + token) * shape.head_dim + d] = from_f32(shape.element, v[d]);
        }
    }
}

void store(const AttnShape& shape, std::span<const StoreSequence> sequences, int thread,
           int n_threads) {
    store_blocks(shape, sequences, thread, n_threads, {nullptr, nullptr, store_rows});
}

}  // namespace

float exp2_nonpositive(float x) {
    if (x < kExp2Floor) return 0.0f;
    const float n = std::nearbyint(x), f = x - n;
    float p = kExp2C5;
    for (float c : {kExp2C4, kExp2C3, kExp2C2, kExp2C1, 1.0f}) p = std::fma(p, f, c);
    if (std::isnan(x)) return p;
    return std::bit_cast<float>(std::bit_cast<int32_t>(p) + (static_cast<int32_t>(n) << 23));
}

float tanh_via_exp2(float x) {
    const float t = exp2_nonpositive(std::fabs(x) * kTanhScale);
    return std::copysign((1.0f - t) / (1.0f + t), x);
}

const AttentionOps& attention() {
    static constexpr AttentionOps ops = {
        .isa = Isa::ref,
        .name = "ref",
        .cpu_has_it = [] { return true; },
        .supports = check_shape,
        .workspace_bytes = [](const AttnShape&, std::span<const AttnSequence>, int) -> size_t {
            return 64;
        },
        .run = run,
        .store = store,
    };
    return ops;
}

}  // namespace quire::kernels::ref
