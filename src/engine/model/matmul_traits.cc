#include "engine/model/matmul_traits.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include <ggml-cpu.h>
#include <ggml.h>

namespace quire {
namespace {

constexpr int32_t kRowCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 64};
constexpr int32_t kMaxRows = 64;
constexpr int64_t kMaxOutputs = 1024;

using Row = std::vector<float>;

// Activations of a plausible size from a fixed generator; the same for every probe.
std::vector<float> activations(int64_t n) {
    std::vector<float> values(static_cast<size_t>(n));
    uint64_t state = 0x9e3779b97f4a7c15;
    for (float& v : values) {
        state = state * 6364136223846793005 + 1442695040888963407;
        v = static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-30f;
    }
    return values;
}

// The last row of a product with n_rows rows; that row is the same whatever n_rows is.
Row last_row(const ggml_tensor* weights, int64_t n_out, const std::vector<float>& inputs,
             int32_t n_rows) {
    const int64_t n_in = weights->ne[0];
    ggml_context* ctx = ggml_init({.mem_size = ggml_tensor_overhead() * 8 + ggml_graph_overhead(),
                                   .mem_buffer = nullptr,
                                   .no_alloc = true});
    ggml_tensor* w = ggml_new_tensor_2d(ctx, weights->type, n_in, n_out);
    w->data = weights->data;
    ggml_tensor* x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n_in, n_rows);
    x->data = const_cast<float*>(inputs.data() + (kMaxRows - n_rows) * n_in);
    ggml_tensor* y = ggml_mul_mat(ctx, w, x);
    std::vector<float> out(static_cast<size_t>(n_out * n_rows));
    y->data = out.data();
    ggml_cgraph* graph = ggml_new_graph_custom(ctx, 8, false);
    ggml_build_forward_expand(graph, y);
    ggml_cplan plan = ggml_graph_plan(graph, 1, nullptr);
    std::vector<uint8_t> work(plan.work_size + 64);
    plan.work_data = work.data();
    ggml_graph_compute(graph, &plan);
    ggml_free(ctx);
    return Row(out.end() - n_out, out.end());
}

bool same_bits(const Row& a, const Row& b) {
    return memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

Result<MatmulTraits> probe_matmul(const ggml_tensor* weights) {
    const int64_t n_in = weights->ne[0];
    // Keep the remainder of the height, where ggml's tiles end raggedly.
    const int64_t n_out =
        weights->ne[1] <= kMaxOutputs ? weights->ne[1] : kMaxOutputs + weights->ne[1] % 64;
    const std::vector<float> inputs = activations(n_in * kMaxRows);
    std::vector<Row> rows;
    for (const int32_t n : kRowCounts) rows.push_back(last_row(weights, n_out, inputs, n));
    const Row& truth = rows.back();

    // The fewest rows from which on every count agrees.
    size_t first = rows.size() - 1;
    while (first > 0 && same_bits(rows[first - 1], truth)) --first;
    MatmulTraits traits{.min_rows = kRowCounts[first]};
    if (traits.min_rows > kTiledRows)
        return make_error(Code::unsupported,
                          std::string("matrices of type ") + ggml_type_name(weights->type) +
                              " give different bits for different batch sizes on this CPU; use "
                              "another quantisation");
    return traits;
}

}  // namespace quire
