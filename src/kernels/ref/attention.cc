#include "kernels/ref/attention.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/attention_math.h"
#include "kernels/attention_plan.h"
#include "kernels/ref/codes.h"
#include "kernels/ref/half.h"

namespace quire::kernels::ref {
namespace {

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
constexpr int kMaxHeadDim = 256;

// One output row: one query head at one position.
struct Row {
    const AttnShape& shape;
    const AttnSequence& sequence;
    int kv_head;
    int position;
    std::array<float, kMaxHeadDim> q;      // scaled; with codes also rotated
    float q_sum;                           // over d ascending, from +0
    std::array<float, kMaxHeadDim> turns;  // of each pair the factors of cos and sin

    int first_key() const { return visible_keys(shape, position, 1).begin; }
    bool sees(int key) const { return key >= first_key() && key <= position; }
    bool is_coded(int key) const {
        const AttnCodes& c = shape.codes;
        return c.any() && key >= c.sink_tokens && key < position / c.span_tokens * c.span_tokens;
    }
    CodedNumber k(int key, int d) const {
        const int token = key % shape.block_tokens;
        if (is_coded(key)) return coded_k(shape, coded_page(key), token, d);
        return {to_f32(shape.element, page(key)[d * shape.block_tokens + token])};
    }
    CodedNumber v(int key, int d) const {
        const int token = key % shape.block_tokens;
        if (is_coded(key)) return coded_v(shape, coded_page(key), token, d);
        return {
            to_f32(shape.element, page(key)[(shape.block_tokens + token) * shape.head_dim + d])};
    }

 private:
    // The pages of a key's block and this KV head.
    const uint16_t* page(int key) const {
        return reinterpret_cast<const uint16_t*>(sequence.slabs[key / shape.block_tokens] +
                                                 shape.layer_offset + kv_head * shape.page_bytes);
    }
    const std::byte* coded_page(int key) const {
        return sequence.coded_slabs[key / shape.block_tokens] + shape.codes.layer_offset +
               kv_head * shape.codes.page_bytes;
    }
};

Row make_row(const AttnShape& shape, const AttnSequence& s, int kv_head, int position,
             const float* q) {
    Row row{shape, s, kv_head, position, {}, 0.0f, {}};
    const float scale = shape.softcap > 0.0f ? shape.scale / shape.softcap : shape.scale * kLog2e;
    const AttnTurns& turns = shape.codes.turns;
    for (int i = 0; i < turns.n_pairs; ++i) {
        const AttnPairMean& m = turns.pairs[kv_head * turns.n_pairs + i];
        const float x = q[m.x] * scale, y = q[m.y] * scale;
        row.turns[2 * i] = std::fma(x, m.mean_x, y * m.mean_y);
        row.turns[2 * i + 1] = std::fma(y, m.mean_x, -(x * m.mean_y));
    }
    std::copy_n(q, shape.head_dim, row.q.begin());
    if (shape.codes.any()) rotate(row.q.data(), shape.head_dim);
    for (int d = 0; d < shape.head_dim; ++d) {
        row.q[d] *= scale;
        row.q_sum += row.q[d];
    }
    return row;
}

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

// Adds what AttnTurns says is missing from a coded key's score, pair by pair.
float add_turns(const Row& row, int key, float s) {
    const AttnTurns& turns = row.shape.codes.turns;
    const int tile = key / kKeyTileTokens, token = key % kKeyTileTokens;
    for (int i = 0; i < turns.n_pairs; ++i) {
        const int angle = turns.pairs[row.kv_head * turns.n_pairs + i].angle;
        const float* far = turns.far + int64_t{2} * (tile * turns.n_angles + angle);
        const float* near = turns.near + int64_t{2} * angle * kKeyTileTokens + token;
        const float a = row.turns[2 * i], b = row.turns[2 * i + 1];
        s = std::fma(std::fma(a, far[0], b * far[1]), near[0], s);
        s = std::fma(std::fma(b, far[0], -(a * far[1])), near[kKeyTileTokens], s);
    }
    return s;
}

// Base-2 score of one visible key: a chain of fused multiply-adds over d ascending. A coded key's
// offset and scale come after it, then its turned mean.
float score(const Row& row, int key) {
    const AttnShape& shape = row.shape;
    float s = 0.0f;
    for (int d = 0; d < shape.head_dim; ++d) s = std::fma(row.q[d], row.k(key, d).stored, s);
    if (row.is_coded(key)) {
        const CodedNumber k = row.k(key, 0);
        s = add_turns(row, key, std::fma(-k.offset, row.q_sum, s) * k.scale);
    }
    return shape.softcap > 0.0f ? tanh_via_exp2(s) * (shape.softcap * kLog2e) : s;
}

// Sixteen numbers to one: halves are added, 8 + 8, 4 + 4, 2 + 2, 1 + 1.
float sum_lanes(std::array<float, kLaneSums> lanes) {
    for (int half = kLaneSums / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    return lanes[0];
}

// ((p[i] + p[i + 16]) + p[i + 32]) + p[i + 48].
float sum_fours(const std::array<float, kKeyTileTokens>& p, int i) {
    return ((p[i] + p[i + 16]) + p[i + 32]) + p[i + 48];
}

// out[d] += sum over visible keys of a tile of p * V, after `out` has shrunk by `correction`.
void weigh(const Row& row, int tile, std::array<float, kKeyTileTokens> p, float correction,
           std::array<float, kMaxHeadDim>& out) {
    // Scales go into the probabilities; what integers were stored too much is taken off at the end.
    std::array<float, kKeyTileTokens> excess{};
    for (int j = 0; j < kKeyTileTokens; ++j) {
        if (!row.sees(tile + j)) continue;
        const CodedNumber v = row.v(tile + j, 0);
        p[j] *= v.scale;
        excess[j] = p[j] * v.offset;
    }
    std::array<float, kLaneSums> lanes;
    for (int i = 0; i < kLaneSums; ++i) lanes[i] = sum_fours(excess, i);
    const float too_much = sum_lanes(lanes);
    for (int d = 0; d < row.shape.head_dim; ++d) {
        float sum = out[d] * correction;
        for (int j = 0; j < kKeyTileTokens; ++j)
            if (row.sees(tile + j)) sum = std::fma(p[j], row.v(tile + j, d).stored, sum);
        out[d] = sum - too_much;
    }
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
            sums[i] = std::fma(sums[i], correction, sum_fours(p, i));
        weigh(row, tile, p, correction, w.out);
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
    const AttnCodes& codes = row.shape.codes;
    if (!codes.any()) return;
    rotate(out, row.shape.head_dim);
    for (int d = 0; codes.v_mean != nullptr && d < row.shape.head_dim; ++d)
        out[d] += codes.v_mean[row.kv_head * row.shape.head_dim + d];
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
                const Row row = make_row(shape, s, h / group, s.first_pos + r,
                                         s.q + r * s.q_row_stride + column);
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
    store_blocks(shape, sequences, thread, n_threads, {nullptr, nullptr, nullptr, store_rows});
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
        .fetch = [](const AttnBatch&, int, int) {},
        .store = store,
    };
    return ops;
}

}  // namespace quire::kernels::ref
