// Decode attention over pages: what it reads over what device memory gives.
#include <algorithm>
#include <memory>
#include <numeric>
#include <random>

#include "codec/hot/layout.h"
#include "device_data.h"
#include "kernels/cuda/attn/decode.h"

namespace quire::gpu_bench {
namespace {

using codec::fp8::Scaling;
using kernels::cuda::DecodeParams;
using kernels::cuda::Numbers;
using kernels::cuda::PagesHold;

struct Batch {
    std::string name;
    int32_t n_heads, kv_heads, head_dim;
    std::vector<int32_t> lengths;
    double bf16_bar = 0;  // share of the ceiling, of pages of bf16
};

// What pages hold.
struct Pages {
    PagesHold hold = PagesHold::codes;
    int k_bits = 0, v_bits = 0;  // of codes
    Scaling scaling = Scaling::one;

    std::string name() const {
        if (hold == PagesHold::bf16) return "bf16";
        if (is_fp8(hold)) return scaling == Scaling::token ? "fp8 with scales of tokens" : "fp8";
        return "k" + std::to_string(k_bits) + "v" + std::to_string(v_bits);
    }
    size_t bytes(int32_t head_dim, int32_t tokens) const {
        const auto numbers = static_cast<size_t>(2 * head_dim * tokens);
        if (hold == PagesHold::bf16) return 2 * numbers;
        if (is_fp8(hold))
            return numbers + (scaling == Scaling::token ? 4 * static_cast<size_t>(tokens) : 0);
        return codec::hot::page_bytes(
            {k_bits, v_bits, static_cast<uint32_t>(head_dim), static_cast<uint32_t>(tokens)});
    }
};
constexpr Pages kBf16 = {PagesHold::bf16};
constexpr Pages kFp8 = {PagesHold::fp8_e4m3};
constexpr Pages kFp8OfTokens = {PagesHold::fp8_e4m3, 0, 0, Scaling::token};
constexpr Pages codes(int k_bits, int v_bits) {
    return {PagesHold::codes, k_bits, v_bits};
}

std::vector<Batch> batches() {
    std::mt19937_64 rng(20261130);
    std::vector<int32_t> ragged(256);
    for (int32_t& n : ragged) n = static_cast<int32_t>(100 + rng() % 16'285);
    return {{"64 x 8k, 64/8 heads of 128", 64, 8, 128, std::vector<int32_t>(64, 8192), 0.92},
            {"8 x 32k, 64/8 heads of 128", 64, 8, 128, std::vector<int32_t>(8, 32'768), 0.90},
            {"1 x 128k, 64/8 heads of 128", 64, 8, 128, {131'072}, 0.85},
            {"256 x 100 to 16k, 64/8 heads of 128", 64, 8, 128, ragged},
            {"64 x 8k, 32/8 heads of 64", 32, 8, 64, std::vector<int32_t>(64, 8192)},
            {"64 x 8k, 8/1 heads of 256", 8, 1, 256, std::vector<int32_t>(64, 8192)},
            {"64 x 8k, 32/8 heads of 80", 32, 8, 80, std::vector<int32_t>(64, 8192)}};
}

struct Width {
    Pages pages;
    double bar;        // share of the ceiling
    double over_bf16;  // time over that of pages of bf16; 0: nobody asks
};
constexpr Width kWidths[] = {{kFp8, 0.88, 0},           {kFp8OfTokens, 0.88, 0},
                             {codes(8, 8), 0.88, 0},    {codes(6, 4), 0.82, 0.38},
                             {codes(4, 4), 0.84, 0.31}, {codes(4, 3), 0.78, 0.28},
                             {codes(3, 2), 0.70, 0.24}};
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

// A batch's buffers and parameters, with n_queries at its end.
class Decode {
 public:
    Decode(const Batch& batch, const Pages& pages, int32_t n_queries = 1)
        : lengths_on_host_(batch.lengths),
          tables_(make_tables(batch, &p_.table_stride, &n_blocks_)),
          lengths_(batch.lengths) {
        p_.n_requests = static_cast<int32_t>(batch.lengths.size());
        p_.n_queries = n_queries;
        p_.n_heads = batch.n_heads;
        p_.kv_heads = batch.kv_heads;
        p_.head_dim = batch.head_dim;
        p_.block_tokens = kBlockTokens;
        p_.scale = 0.05f;
        p_.pages_hold = pages.hold;
        p_.k_bits = pages.k_bits;
        p_.v_bits = pages.v_bits;
        p_.scaling = pages.scaling;
        p_.q_head_stride = p_.out_head_stride = p_.head_dim;
        p_.q_token_stride = p_.out_token_stride = int64_t{p_.head_dim} * p_.n_heads;
        p_.element = Numbers::bf16;
        page_ = pages.bytes(p_.head_dim, kBlockTokens);
        p_.head_stride = static_cast<int64_t>(page_);
        p_.block_stride = p_.head_stride * p_.kv_heads;
        pages_ = std::make_unique<DeviceBuffer>(static_cast<size_t>(n_blocks_ * p_.block_stride),
                                                pages.hold != PagesHold::codes);
        const size_t rows = static_cast<size_t>(p_.n_requests) *
                            static_cast<size_t>(p_.n_queries * p_.q_token_stride);
        q_ = std::make_unique<DeviceBuffer>(rows * 2, true);
        out_ = std::make_unique<DeviceBuffer>(rows * 2, true);
        workspace_ =
            std::make_unique<DeviceBuffer>(kernels::cuda::decode_workspace_bytes(p_, workers_));
        p_.q = q_->as();
        p_.out = out_->as();
        p_.lengths = lengths_.as<int32_t>();
        p_.blocks = tables_.as<int32_t>();
        p_.pages = pages_->as();
        p_.workspace = workspace_->as();
    }
    void run() const { check(kernels::cuda::decode(p_, workers_, nullptr), "decode"); }
    double time() const {
        return seconds([&] { run(); });
    }
    double bytes() const {
        double tokens = 0;
        for (const int32_t n : lengths_on_host_) tokens += n;
        return tokens * p_.kv_heads * static_cast<double>(page_) / kBlockTokens;
    }

 private:
    DecodeParams p_;
    int64_t n_blocks_ = 0;
    int32_t workers_ = kernels::cuda::decode_blocks();
    size_t page_ = 0;
    std::vector<int32_t> lengths_on_host_;
    DeviceBuffer tables_, lengths_;
    std::unique_ptr<DeviceBuffer> pages_, q_, out_, workspace_;
};

Row share(const Machine& machine, const std::string& what, double bytes, double time, double bar) {
    return {.what = what,
            .unit = "TB/s",
            .measured = bytes / time * 1e-12,
            .reference = machine.read_bytes_per_s * 1e-12,
            .bar = bar};
}
Row over(const std::string& what, double time, double other, double bar) {
    return {.what = what,
            .unit = "us",
            .measured = time * 1e6,
            .reference = other * 1e6,
            .bar = bar,
            .at_least = false};
}

void measure_batch(const Machine& machine, const Batch& batch, std::vector<Row>& rows) {
    const Decode numbers(batch, kBf16);
    const double bf16 = numbers.time();
    rows.push_back(
        share(machine, "decode bf16, " + batch.name, numbers.bytes(), bf16, batch.bf16_bar));
    for (const Width& width : kWidths) {
        const Decode decode(batch, width.pages);
        const double time = decode.time();
        const std::string name = "decode " + width.pages.name() + ", " + batch.name;
        rows.push_back(share(machine, name, decode.bytes(), time, width.bar));
        if (width.over_bf16 > 0 && batch.bf16_bar > 0)
            rows.push_back(over(name + ": over bf16", time, bf16, width.over_bf16));
    }
}

// Four query tokens over one.
void measure_verify(const Batch& batch, const Pages& pages, std::vector<Row>& rows) {
    const double one = Decode(batch, pages).time();
    const double four = Decode(batch, pages, 4).time();
    rows.push_back(
        over("decode " + pages.name() + ", 4 queries over 1, " + batch.name, four, one, 1.15));
}

// The layers of a model, whose widths are a schedule, one after the other; over the sum of times
// that each takes alone.
void measure_schedule(const Batch& batch, std::vector<Row>& rows) {
    constexpr int kLayers[][2] = {{8, 8}, {6, 4}, {4, 4}, {4, 3}, {3, 2}, {3, 3}, {2, 2}, {3, 2}};
    std::vector<std::unique_ptr<Decode>> layers;
    double parts = 0;
    for (const auto& layer : kLayers) {
        layers.push_back(std::make_unique<Decode>(batch, codes(layer[0], layer[1])));
        parts += 4 * layers.back()->time();
    }
    const double all = seconds([&] {
        for (int i = 0; i < 32; ++i) layers[static_cast<size_t>(i * 5 % 8)]->run();
    });
    rows.push_back(over("decode, 32 layers of 2 to 8 bits over the sum of parts, " + batch.name,
                        all, parts, 1.05));
}

}  // namespace

std::vector<Row> decode_rows(const Machine& machine) {
    std::vector<Row> rows;
    const std::vector<Batch> all = batches();
    for (const Batch& batch : all) measure_batch(machine, batch, rows);
    for (const Pages& pages : {kBf16, kFp8, codes(4, 4)}) measure_verify(all[0], pages, rows);
    measure_schedule({"8 x 8k, 64/8 heads of 128", 64, 8, 128, std::vector<int32_t>(8, 8192)},
                     rows);
    return rows;
}

}  // namespace quire::gpu_bench
