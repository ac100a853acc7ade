// Attention of chunks of prompts over pages: products over the most that cuBLAS does; and of
// requests that share a prefix: over reading everything.
#include <algorithm>
#include <memory>
#include <numeric>
#include <random>

#include "codec/hot/layout.h"
#include "device_data.h"
#include "gemm.h"
#include "kernels/cuda/attn/cascade.h"
#include "kernels/cuda/attn/prefill.h"

namespace quire::gpu_bench {
namespace {

using kernels::cuda::CascadeParams;
using kernels::cuda::DecodeParams;
using kernels::cuda::Numbers;
using kernels::cuda::PagesHold;
using kernels::cuda::PrefillParams;

constexpr int32_t kBlockTokens = 64;
constexpr int kNumbers = 16;  // width of pages of bf16

struct Shape {
    int32_t n_heads = 64, kv_heads = 8, head_dim = 128;
    int k_bits = kNumbers, v_bits = kNumbers;

    std::string name() const {
        return k_bits == kNumbers ? "bf16"
                                  : "k" + std::to_string(k_bits) + "v" + std::to_string(v_bits);
    }
    size_t page_bytes() const {
        return k_bits == kNumbers
                   ? size_t{4} * static_cast<size_t>(head_dim * kBlockTokens)
                   : codec::hot::page_bytes({k_bits, v_bits, static_cast<uint32_t>(head_dim),
                                             static_cast<uint32_t>(kBlockTokens)});
    }
};

std::vector<int32_t> shuffled(int32_t n) {
    std::vector<int32_t> ids(static_cast<size_t>(n));
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937_64(1));
    return ids;
}

// What calls over n_blocks pages and n_tokens queries have in common; buffers of noise.
class Attention {
 public:
    Attention(const Shape& shape, int32_t n_blocks, int32_t n_tokens)
        : shape_(shape),
          pages_(static_cast<size_t>(n_blocks) * static_cast<size_t>(shape.kv_heads) *
                     shape.page_bytes(),
                 shape.k_bits == kNumbers),
          q_(row_bytes(shape, n_tokens), true),
          out_(row_bytes(shape, n_tokens), true) {}

    template <class Params>
    void fill(Params& p) const {
        p.q = q_.as();
        p.out = out_.as();
        p.n_heads = shape_.n_heads;
        p.kv_heads = shape_.kv_heads;
        p.head_dim = shape_.head_dim;
        p.block_tokens = kBlockTokens;
        p.scale = 0.05f;
        p.element = Numbers::bf16;
        p.q_head_stride = p.out_head_stride = shape_.head_dim;
        p.q_token_stride = p.out_token_stride = int64_t{shape_.head_dim} * shape_.n_heads;
        p.k_bits = shape_.k_bits;
        p.v_bits = shape_.v_bits;
        if (shape_.k_bits == kNumbers) p.pages_hold = PagesHold::bf16;
        p.pages = pages_.as();
        p.head_stride = static_cast<int64_t>(shape_.page_bytes());
        p.block_stride = p.head_stride * shape_.kv_heads;
    }

 private:
    static size_t row_bytes(const Shape& s, int32_t n_tokens) {
        return static_cast<size_t>(n_tokens) * static_cast<size_t>(s.n_heads * s.head_dim) * 2;
    }
    Shape shape_;
    DeviceBuffer pages_, q_, out_;
};

// The last n_queries tokens of one request.
Row measure_chunk(const Shape& shape, int32_t n_keys, int32_t n_queries, double flops_per_s) {
    const int32_t blocks = kernels::cuda::decode_blocks();
    const Attention attention(shape, n_keys / kBlockTokens, n_queries);
    const DeviceBuffer lengths(std::vector<int32_t>{n_keys}),
        tables(shuffled(n_keys / kBlockTokens));
    const DeviceBuffer first(std::vector<int32_t>{0, n_queries});
    PrefillParams p;
    attention.fill(p);
    p.n_requests = 1;
    p.n_tokens = n_queries;
    p.lengths = lengths.as<int32_t>();
    p.blocks = tables.as<int32_t>();
    p.table_stride = n_keys / kBlockTokens;
    p.first_tokens = first.as<int32_t>();
    const DeviceBuffer workspace(kernels::cuda::prefill_workspace_bytes(p, blocks));
    p.workspace = workspace.as();
    const double time =
        seconds([&] { check(kernels::cuda::prefill(p, blocks, nullptr), "prefill"); });
    const double keys = n_keys - (n_queries - 1) / 2.0;  // of a query, on average
    const double flops = 4.0 * n_queries * shape.n_heads * shape.head_dim * keys;
    return {.what = "prefill " + shape.name() + ", " + std::to_string(n_queries) + " of " +
                    std::to_string(n_keys) + ", " + std::to_string(shape.n_heads) + "/" +
                    std::to_string(shape.kv_heads) + " heads of " + std::to_string(shape.head_dim),
            .unit = "TF/s",
            .measured = flops / time * 1e-12,
            .reference = flops_per_s * 1e-12};
}

// 64 requests that share 16k keys and have 1k of their own.
class Shared {
 public:
    static constexpr int32_t kRequests = 64, kPrefix = 16'384 / kBlockTokens,
                             kOwn = 1024 / kBlockTokens, kAll = kPrefix + kOwn;

    // apart: plain decode has pages of its own for each request's prefix.
    Shared(const Shape& shape, bool apart)
        : attention_(shape, apart ? kRequests * kAll : kPrefix + kRequests * kOwn, kRequests) {
        const std::vector<int32_t> ids =
            shuffled(apart ? kRequests * kAll : kPrefix + kRequests * kOwn);
        std::vector<int32_t> all, own;
        size_t next = apart ? 0 : kPrefix;
        for (int32_t r = 0; r < kRequests; ++r) {
            for (size_t b = 0; b < kPrefix; ++b) all.push_back(apart ? ids[next++] : ids[b]);
            for (int32_t b = 0; b < kOwn; ++b) {
                own.push_back(ids[next]);
                all.push_back(ids[next++]);
            }
        }
        all_ = std::make_unique<DeviceBuffer>(all);
        own_ = std::make_unique<DeviceBuffer>(own);
        prefix_ = std::make_unique<DeviceBuffer>(ids);
    }

    double plain() const {
        DecodeParams p = params(kAll, *all_, all_lengths_);
        const DeviceBuffer workspace(kernels::cuda::decode_workspace_bytes(p, blocks_));
        p.workspace = workspace.as();
        return seconds([&] { check(kernels::cuda::decode(p, blocks_, nullptr), "decode"); });
    }
    double own() const {
        DecodeParams p = params(kOwn, *own_, own_lengths_);
        const DeviceBuffer workspace(kernels::cuda::decode_workspace_bytes(p, blocks_));
        p.workspace = workspace.as();
        return seconds([&] { check(kernels::cuda::decode(p, blocks_, nullptr), "decode"); });
    }
    double cascade() const {
        CascadeParams c;
        c.own = params(kOwn, *own_, own_lengths_);
        c.n_groups = 1;
        c.first_requests = groups_.as<int32_t>();
        c.prefix_lengths = prefix_length_.as<int32_t>();
        c.prefix_blocks = prefix_->as<int32_t>();
        c.prefix_table_stride = kPrefix;
        const DeviceBuffer workspace(kernels::cuda::cascade_workspace_bytes(c, blocks_));
        c.workspace = workspace.as();
        return seconds([&] { check(kernels::cuda::cascade(c, blocks_, nullptr), "cascade"); });
    }

 private:
    DecodeParams params(int32_t n_blocks, const DeviceBuffer& tables,
                        const DeviceBuffer& lengths) const {
        DecodeParams p;
        attention_.fill(p);
        p.n_requests = kRequests;
        p.lengths = lengths.as<int32_t>();
        p.blocks = tables.as<int32_t>();
        p.table_stride = n_blocks;
        return p;
    }

    int32_t blocks_ = kernels::cuda::decode_blocks();
    Attention attention_;
    std::unique_ptr<DeviceBuffer> all_, own_, prefix_;
    DeviceBuffer all_lengths_{std::vector<int32_t>(kRequests, kAll* kBlockTokens)};
    DeviceBuffer own_lengths_{std::vector<int32_t>(kRequests, kOwn* kBlockTokens)};
    DeviceBuffer groups_{std::vector<int32_t>{0, kRequests}};
    DeviceBuffer prefix_length_{std::vector<int32_t>{kPrefix * kBlockTokens}};
};

Row over(const std::string& what, double time, double other, double bar) {
    return {.what = what,
            .unit = "us",
            .measured = time * 1e6,
            .reference = other * 1e6,
            .bar = bar,
            .at_least = false};
}

void measure_shared(const Shape& shape, std::vector<Row>& rows) {
    const std::string name = "cascade " + shape.name() + ", 64 share 16k, own 1k: over ";
    const Shared shared(shape, false);
    const double cascade = shared.cascade();
    rows.push_back(over(name + "reading everything", cascade, Shared(shape, true).plain(), 0.2));
    rows.push_back(over(name + "decode of the same pages", cascade, shared.plain(), 0));
    rows.push_back(over(name + "decode of own keys", cascade, shared.own(), 0));
}

}  // namespace

std::vector<Row> prefill_rows(const Machine&) {
    const Gemm gemm(8192);
    const double flops = gemm.flops() / seconds([&] { gemm.queue(nullptr); });
    std::vector<Row> rows = {
        {.what = "products, " + gemm.name(), .unit = "TF/s", .measured = flops * 1e-12}};
    for (const auto& bits : {std::pair{kNumbers, kNumbers}, {8, 8}, {6, 4}, {4, 4}, {3, 2}}) {
        Shape shape = {.k_bits = bits.first, .v_bits = bits.second};
        rows.push_back(measure_chunk(shape, 16'384, 4096, flops));
    }
    for (const int bits : {kNumbers, 4}) {
        rows.push_back(measure_chunk({32, 8, 64, bits, bits}, 16'384, 4096, flops));
        rows.push_back(measure_chunk({8, 1, 256, bits, bits}, 16'384, 4096, flops));
        rows.push_back(measure_chunk({.k_bits = bits, .v_bits = bits}, 131'072, 512, flops));
    }
    for (const int bits : {kNumbers, 8, 4}) measure_shared({.k_bits = bits, .v_bits = bits}, rows);
    return rows;
}

}  // namespace quire::gpu_bench
