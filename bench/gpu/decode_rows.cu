// Decode attention over codes: what it reads over what device memory gives.
#include <algorithm>
#include <numeric>
#include <random>

#include "codec/hot/layout.h"
#include "device_data.h"
#include "kernels/cuda/attn/decode.h"

namespace quire::gpu_bench {
namespace {

using kernels::cuda::DecodeParams;
using kernels::cuda::Numbers;

struct Batch {
    std::string name;
    int32_t n_heads, kv_heads, head_dim;
    std::vector<int32_t> lengths;
};

std::vector<Batch> batches() {
    std::mt19937_64 rng(20261130);
    std::vector<int32_t> ragged(256);
    for (int32_t& n : ragged) n = static_cast<int32_t>(100 + rng() % 16'285);
    return {{"64 x 8k, 64/8 heads of 128", 64, 8, 128, std::vector<int32_t>(64, 8192)},
            {"8 x 32k, 64/8 heads of 128", 64, 8, 128, std::vector<int32_t>(8, 32'768)},
            {"1 x 128k, 64/8 heads of 128", 64, 8, 128, {131'072}},
            {"256 x 100 to 16k, 64/8 heads of 128", 64, 8, 128, ragged},
            {"64 x 8k, 32/8 heads of 64", 32, 8, 64, std::vector<int32_t>(64, 8192)},
            {"64 x 8k, 8/1 heads of 256", 8, 1, 256, std::vector<int32_t>(64, 8192)}};
}

struct Width {
    int k_bits, v_bits;
    double bar;  // share of the ceiling
};
constexpr Width kWidths[] = {{8, 8, 0.88}, {6, 4, 0.82}, {4, 4, 0.84}, {4, 3, 0.78}, {3, 2, 0.70}};
constexpr int32_t kBlockTokens = 64;

// Blocks of all requests, in random order.
std::vector<int32_t> make_tables(const Batch& batch, int64_t* stride, int64_t* n_blocks) {
    const int32_t most = *std::max_element(batch.lengths.begin(), batch.lengths.end());
    *stride = (most + kBlockTokens - 1) / kBlockTokens;
    *n_blocks = 0;
    for (const int32_t n : batch.lengths) *n_blocks += (n + kBlockTokens - 1) / kBlockTokens;
    std::vector<int32_t> ids(static_cast<size_t>(*n_blocks));
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937_64(1));
    std::vector<int32_t> tables(batch.lengths.size() * static_cast<size_t>(*stride));
    size_t next = 0;
    for (size_t r = 0; r < batch.lengths.size(); ++r)
        for (int32_t b = 0; b < (batch.lengths[r] + kBlockTokens - 1) / kBlockTokens; ++b)
            tables[r * static_cast<size_t>(*stride) + static_cast<size_t>(b)] = ids[next++];
    return tables;
}

Row measure(const Machine& machine, const Batch& batch, const Width& width) {
    DecodeParams p;
    p.n_requests = static_cast<int32_t>(batch.lengths.size());
    p.n_heads = batch.n_heads;
    p.kv_heads = batch.kv_heads;
    p.head_dim = batch.head_dim;
    p.block_tokens = kBlockTokens;
    p.scale = 0.05f;
    p.k_bits = width.k_bits;
    p.v_bits = width.v_bits;
    p.q_head_stride = p.out_head_stride = p.head_dim;
    p.q_token_stride = p.out_token_stride = int64_t{p.head_dim} * p.n_heads;
    p.element = Numbers::bf16;
    const size_t page =
        codec::hot::page_bytes({width.k_bits, width.v_bits, static_cast<uint32_t>(p.head_dim),
                                static_cast<uint32_t>(kBlockTokens)});
    p.head_stride = static_cast<int64_t>(page);
    p.block_stride = p.head_stride * p.kv_heads;
    int64_t n_blocks = 0;
    const DeviceBuffer tables(make_tables(batch, &p.table_stride, &n_blocks));
    const DeviceBuffer lengths(batch.lengths);
    const DeviceBuffer pages(static_cast<size_t>(n_blocks * p.block_stride));
    const size_t rows = static_cast<size_t>(p.n_requests) * static_cast<size_t>(p.q_token_stride);
    const DeviceBuffer q(rows * 2, true), out(rows * 2, true);
    const int32_t workers = kernels::cuda::decode_blocks();
    const DeviceBuffer workspace(kernels::cuda::decode_workspace_bytes(p, workers));
    p.q = q.as();
    p.out = out.as();
    p.lengths = lengths.as<int32_t>();
    p.blocks = tables.as<int32_t>();
    p.pages = pages.as();
    p.workspace = workspace.as();
    const double s = seconds([&] { check(kernels::cuda::decode(p, workers, nullptr), "decode"); });
    double tokens = 0;
    for (const int32_t n : batch.lengths) tokens += n;
    const double bytes = tokens * p.kv_heads * static_cast<double>(page) / kBlockTokens;
    return {.what = "decode k" + std::to_string(width.k_bits) + "v" + std::to_string(width.v_bits) +
                    ", " + batch.name,
            .unit = "TB/s",
            .measured = bytes / s * 1e-12,
            .reference = machine.read_bytes_per_s * 1e-12,
            .bar = width.bar};
}

}  // namespace

std::vector<Row> decode_rows(const Machine& machine) {
    std::vector<Row> rows;
    for (const Batch& batch : batches())
        for (const Width& width : kWidths) rows.push_back(measure(machine, batch, width));
    return rows;
}

}  // namespace quire::gpu_bench
