// Our attention against ggml's, on the same 16-bit keys and values: its plain graph (matrix
// products and a softmax in float32) and its fused flash attention (which rounds the query to 16
// bits).
#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include "ggml-cpu.h"
#include "ggml.h"
#include "kernels/attention_fixture.h"
#include "kernels/ref/half.h"

namespace quire::kernels {
namespace {

using testing::Geometry;
using testing::run_batch;
using testing::runnable_ops;
using testing::World;

struct FreeContext {
    void operator()(ggml_context* c) const { ggml_free(c); }
};
using Context = std::unique_ptr<ggml_context, FreeContext>;

// A world whose keys and values are 16-bit numbers already, so that both sides see the same.
World make_world(const Geometry& g, int n_tokens, uint64_t seed) {
    World w(g, n_tokens, seed);
    for (auto* rows : {&w.k, &w.v})
        for (float& x : *rows) x = ref::f16_to_f32(ref::f32_to_f16(x));
    return w;
}

// The last n_rows rows of the world by ggml, as [row][head][dim].
class Ggml {
 public:
    Ggml(const World& w, int n_rows) : w_(w), s_(w.shape), n_rows_(n_rows) {
        context_.reset(
            ggml_init({.mem_size = size_t{256} << 20, .mem_buffer = nullptr, .no_alloc = false}));
    }

    std::vector<float> plain() {
        ggml_tensor* kq = ggml_mul_mat(c(), keys(GGML_TYPE_F32), queries());
        if (s_.softcap > 0) {
            kq = ggml_scale(c(), kq, s_.scale / s_.softcap);
            kq = ggml_scale(c(), ggml_tanh(c(), kq), s_.softcap);
        }
        kq = ggml_soft_max_ext(c(), kq, mask(GGML_TYPE_F32), s_.softcap > 0 ? 1.0f : s_.scale, 0);
        ggml_tensor* v = ggml_cont(c(), ggml_transpose(c(), values(GGML_TYPE_F32)));
        ggml_tensor* out = ggml_mul_mat(c(), v, kq);  // [dim, row, head]
        return compute(ggml_cont(c(), ggml_permute(c(), out, 0, 2, 1, 3)));
    }

    std::vector<float> flash() {
        return compute(ggml_flash_attn_ext(c(), queries(), keys(GGML_TYPE_F16),
                                           values(GGML_TYPE_F16), mask(GGML_TYPE_F16), s_.scale, 0,
                                           s_.softcap));
    }

 private:
    ggml_context* c() { return context_.get(); }
    int first() const { return w_.n_tokens() - n_rows_; }

    static void put(ggml_tensor* t, int64_t i, float x) {
        if (t->type == GGML_TYPE_F32)
            static_cast<float*>(t->data)[i] = x;
        else
            static_cast<uint16_t*>(t->data)[i] = ref::f32_to_f16(x);
    }

    // [dim, row, head] of rows from `from` on.
    ggml_tensor* heads(const std::vector<float>& rows, int n_heads, int from, ggml_type type) {
        const int n = w_.n_tokens() - from, d = s_.head_dim;
        ggml_tensor* t = ggml_new_tensor_3d(c(), type, d, n, n_heads);
        for (int h = 0; h < n_heads; ++h)
            for (int r = 0; r < n; ++r)
                for (int i = 0; i < d; ++i)
                    put(t, (int64_t{h} * n + r) * d + i,
                        rows[(int64_t{from} + r) * n_heads * d + h * d + i]);
        return t;
    }
    ggml_tensor* queries() { return heads(w_.q, s_.n_heads, first(), GGML_TYPE_F32); }
    ggml_tensor* keys(ggml_type t) { return heads(w_.k, s_.n_kv_heads, 0, t); }
    ggml_tensor* values(ggml_type t) { return heads(w_.v, s_.n_kv_heads, 0, t); }

    ggml_tensor* mask(ggml_type type) {
        const int n = w_.n_tokens();
        ggml_tensor* t = ggml_new_tensor_2d(c(), type, n, GGML_PAD(n_rows_, 64));
        for (int r = 0; r < t->ne[1]; ++r) {
            for (int key = 0; key < n; ++key) {
                const int p = first() + r;
                const bool seen = key <= p && (s_.window == 0 || key > p - s_.window);
                put(t, int64_t{r} * n + key, seen || r >= n_rows_ ? 0.0f : -INFINITY);
            }
        }
        return t;
    }

    std::vector<float> compute(ggml_tensor* out) {
        ggml_cgraph* graph = ggml_new_graph(c());
        ggml_build_forward_expand(graph, out);
        EXPECT_EQ(ggml_graph_compute_with_ctx(c(), graph, 2), GGML_STATUS_SUCCESS);
        const auto* data = static_cast<const float*>(out->data);
        return {data, data + ggml_nelements(out)};
    }

    const World& w_;
    const AttnShape& s_;
    const int n_rows_;
    Context context_;
};

// Largest difference, over the root mean square of what is expected.
double difference(const std::vector<float>& expected, const float* got) {
    double worst = 0, squares = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
        worst = std::max(worst, std::fabs(static_cast<double>(expected[i]) - got[i]));
        squares += static_cast<double>(expected[i]) * expected[i];
    }
    return worst / std::sqrt(squares / static_cast<double>(expected.size()));
}

class GgmlAttention : public ::testing::TestWithParam<Geometry> {};

TEST_P(GgmlAttention, AgreesWithThePlainAndTheFlashGraph) {
    constexpr uint64_t kSeed = 77;
    for (int n_rows : {1, 96}) {
        SCOPED_TRACE("rows " + std::to_string(n_rows) + " seed " + std::to_string(kSeed));
        const World w = make_world(GetParam(), 900, kSeed);
        const std::vector<float> plain = Ggml(w, n_rows).plain(), flash = Ggml(w, n_rows).flash();
        ASSERT_EQ(plain.size(), size_t(n_rows) * w.q_width());
        for (const AttentionOps* ops : runnable_ops()) {
            w.store_all(*ops);
            std::vector<float> out;
            run_batch(*ops, w.shape, {w.rows(w.n_tokens() - n_rows, n_rows, out)}, 2);
            const float* rows = out.data() + int64_t{w.n_tokens() - n_rows} * w.q_width();
            EXPECT_LT(difference(plain, rows), 5e-5) << ops->name;
            EXPECT_LT(difference(flash, rows), 3e-2) << ops->name;
        }
        EXPECT_GT(difference(flash, plain.data()), 0);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Geometries, GgmlAttention,
    ::testing::Values(
        Geometry{.n_heads = 9, .n_kv_heads = 3, .head_dim = 64},
        Geometry{.n_heads = 4, .n_kv_heads = 1, .head_dim = 256, .window = 512},
        Geometry{
            .n_heads = 4, .n_kv_heads = 2, .head_dim = 128, .block_tokens = 32, .softcap = 20.0f}));

}  // namespace
}  // namespace quire::kernels
