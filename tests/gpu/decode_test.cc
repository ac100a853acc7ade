// Attention over codes against the same in double, over the numbers that the CPU's oracle decodes.
#include "kernels/cuda/attn/decode.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "check.h"
#include "codec/hot/hot.h"
#include "codec/hot/scale.h"
#include "codec/raw16/raw16.h"
#include "core/half.h"
#include "device_memory.h"
#include "kernels/cuda/attn/launch.h"

namespace quire {
namespace {

using gpu_testing::DeviceArray;
using kernels::cuda::DecodeParams;
using kernels::cuda::Numbers;
using kernels::cuda::PagesHold;

struct Case {
    int32_t head_dim = 128, kv_heads = 2, group = 4, n_queries = 1, block_tokens = 64;
    int k_bits = 4, v_bits = 4;
    PagesHold hold = PagesHold::codes;
    int32_t window = 0;
    float softcap = 0;
    std::vector<int32_t> lengths = {1, 31, 32, 33, 700, 5000};
};

std::string describe(const Case& c) {
    return "D " + std::to_string(c.head_dim) + " heads " + std::to_string(c.group) + " x " +
           std::to_string(c.kv_heads) + " queries " + std::to_string(c.n_queries) + " block " +
           std::to_string(c.block_tokens) + " k" + std::to_string(c.k_bits) + "v" +
           std::to_string(c.v_bits) + " window " + std::to_string(c.window) + " cap " +
           std::to_string(c.softcap);
}

// Pages of random codes. Tokens that no request has are all ones, as bad as bytes can be.
class World {
 public:
    World(const Case& c, uint64_t seed) : c_(c), rng_(seed) {
        shape_ = {c.k_bits, c.v_bits, static_cast<uint32_t>(c.head_dim),
                  static_cast<uint32_t>(c.block_tokens)};
        page_bytes_ = is_codes() ? codec::hot::page_bytes(shape_)
                                 : size_t{4} * shape_.head_dim * shape_.tokens;
        const int32_t most = *std::max_element(c.lengths.begin(), c.lengths.end());
        table_stride_ = (most + c.block_tokens - 1) / c.block_tokens + 1;
        make_tables();
        make_pages();
        q_.resize(n_rows() * static_cast<size_t>(c.head_dim));
        std::normal_distribution<float> normal(0.0f, 1.5f);
        for (float& x : q_) x = static_cast<float>(__nv_bfloat16(normal(rng_)));
        v_mean_.resize(static_cast<size_t>(c.kv_heads * c.head_dim));
        for (float& x : v_mean_) x = normal(rng_);
    }

    size_t n_rows() const {
        return c_.lengths.size() * static_cast<size_t>(c_.n_queries * c_.group * c_.kv_heads);
    }
    float scale() const { return 1.0f / std::sqrt(static_cast<float>(c_.head_dim)); }

    // Row: [request][query][head].
    void attend(size_t request, int32_t query, int32_t head, std::vector<double>& out,
                double& lse) const {
        const auto d = static_cast<size_t>(c_.head_dim);
        out.assign(d, 0.0);
        const int32_t length = c_.lengths[request];
        const int32_t end = length - c_.n_queries + query + 1;
        const int32_t begin = c_.window > 0 ? std::max(0, end - c_.window) : 0;
        const int32_t kv_head = head / c_.group;
        const std::vector<float>& kv = decoded(request, kv_head);
        const float* q = q_.data() + row_of(request, query, head) * d;
        std::vector<double> scores;
        for (int32_t t = begin; t < end; ++t) {
            const float* k = kv.data() + static_cast<size_t>(t) * 2 * d;
            double x = 0;
            for (size_t i = 0; i < d; ++i) x += double{q[i]} * k[i];
            x *= scale();
            scores.push_back(c_.softcap > 0 ? std::tanh(x / c_.softcap) * c_.softcap : x);
        }
        const double top = *std::max_element(scores.begin(), scores.end());
        double sum = 0;
        for (int32_t t = begin; t < end; ++t) {
            const double weight = std::exp(scores[static_cast<size_t>(t - begin)] - top);
            sum += weight;
            const float* v = kv.data() + (static_cast<size_t>(t) * 2 + 1) * d;
            for (size_t i = 0; i < d; ++i) out[i] += weight * v[i];
        }
        const float* mean = v_mean_.data() + static_cast<size_t>(kv_head) * d;
        for (size_t i = 0; i < d; ++i) out[i] = out[i] / sum + mean[i];
        lse = top + std::log(sum);
    }

    size_t row_of(size_t request, int32_t query, int32_t head) const {
        return (request * static_cast<size_t>(c_.n_queries) + static_cast<size_t>(query)) *
                   static_cast<size_t>(c_.group * c_.kv_heads) +
               static_cast<size_t>(head);
    }

    DecodeParams params() const {
        DecodeParams p;
        p.q_head_stride = p.out_head_stride = c_.head_dim;
        p.q_token_stride = p.out_token_stride = int64_t{c_.head_dim} * c_.group * c_.kv_heads;
        p.element = Numbers::f32;
        p.n_requests = static_cast<int32_t>(c_.lengths.size());
        p.n_queries = c_.n_queries;
        p.n_heads = c_.group * c_.kv_heads;
        p.kv_heads = c_.kv_heads;
        p.head_dim = c_.head_dim;
        p.block_tokens = c_.block_tokens;
        p.window = c_.window;
        p.scale = scale();
        p.softcap = c_.softcap;
        p.table_stride = table_stride_;
        p.block_stride = static_cast<int64_t>(page_bytes_) * c_.kv_heads;
        p.head_stride = static_cast<int64_t>(page_bytes_);
        p.pages_hold = c_.hold;
        p.k_bits = c_.k_bits;
        p.v_bits = c_.v_bits;
        return p;
    }

    const std::vector<float>& q() const { return q_; }
    const std::vector<float>& v_mean() const { return v_mean_; }
    const std::vector<int32_t>& tables() const { return tables_; }
    const std::vector<std::byte>& pages() const { return pages_; }

 private:
    int32_t blocks_of(size_t request) const {
        return (c_.lengths[request] + c_.block_tokens - 1) / c_.block_tokens;
    }

    // Behind a request's blocks the table has numbers that are no block's.
    void make_tables() {
        for (size_t r = 0; r < c_.lengths.size(); ++r) n_blocks_ += blocks_of(r);
        std::vector<int32_t> ids(static_cast<size_t>(n_blocks_));
        std::iota(ids.begin(), ids.end(), 0);
        std::shuffle(ids.begin(), ids.end(), rng_);
        tables_.assign(c_.lengths.size() * static_cast<size_t>(table_stride_), 0x7fffffff);
        for (size_t r = 0; r < c_.lengths.size(); ++r)
            for (int32_t b = 0; b < blocks_of(r); ++b) {
                tables_[r * static_cast<size_t>(table_stride_) + static_cast<size_t>(b)] =
                    ids.back();
                ids.pop_back();
            }
    }

    std::byte* page(int32_t block, int32_t kv_head) {
        return pages_.data() + (static_cast<size_t>(block) * static_cast<size_t>(c_.kv_heads) +
                                static_cast<size_t>(kv_head)) *
                                   page_bytes_;
    }

    void make_pages() {
        pages_.resize(page_bytes_ * static_cast<size_t>(n_blocks_ * c_.kv_heads));
        for (std::byte& b : pages_) b = static_cast<std::byte>(rng_());
        for (size_t r = 0; r < c_.lengths.size(); ++r)
            for (int32_t b = 0; b < blocks_of(r); ++b)
                for (int32_t h = 0; h < c_.kv_heads; ++h)
                    is_codes() ? make_scales(r, b, h) : make_numbers(r, b, h);
    }

    bool is_codes() const { return c_.hold == PagesHold::codes; }
    Element element() const { return c_.hold == PagesHold::bf16 ? Element::bf16 : Element::f16; }

    // K about 1 in size, V about 4; NaNs where no token is.
    void make_numbers(size_t request, int32_t b, int32_t kv_head) {
        const auto block =
            tables_[request * static_cast<size_t>(table_stride_) + static_cast<size_t>(b)];
        const codec::Geometry g = {shape_.head_dim, 1, shape_.tokens, element()};
        auto* numbers = reinterpret_cast<uint16_t*>(page(block, kv_head));
        std::normal_distribution<float> normal;
        for (uint32_t t = 0; t < shape_.tokens; ++t) {
            const bool used = b * c_.block_tokens + static_cast<int32_t>(t) < c_.lengths[request];
            for (uint32_t d = 0; d < shape_.head_dim; ++d) {
                numbers[codec::raw16::k_at(g, t, d)] =
                    used ? from_f32(g.element, normal(rng_)) : uint16_t{0xffff};
                numbers[codec::raw16::v_at(g, t, d)] =
                    used ? from_f32(g.element, 4 * normal(rng_)) : uint16_t{0xffff};
            }
        }
    }

    // Numbers of K about 1 and of V about 4 in size, some rows far from that, some zero.
    void make_scales(size_t request, int32_t b, int32_t kv_head) {
        const auto block =
            tables_[request * static_cast<size_t>(table_stride_) + static_cast<size_t>(b)];
        std::byte* scales = page(block, kv_head);
        const auto unit = [&](int bits, double size) {
            const double step =
                std::log2(size / std::exp2(bits > 5 ? bits - 2 : 0)) + codec::hot::octaves(bits);
            const int odd = rng_() % 16 == 0 ? static_cast<int>(rng_() % 64) - 48 : 0;
            const int u = static_cast<int>(16 * step) + static_cast<int>(rng_() % 32) - 16 + odd;
            return static_cast<std::byte>(rng_() % 40 == 0 ? 0 : std::clamp(u, 1, 255));
        };
        for (int32_t t = 0; t < c_.block_tokens; ++t) {
            const bool used = b * c_.block_tokens + t < c_.lengths[request];
            const auto at = static_cast<size_t>(t);
            scales[codec::hot::k_scales_offset(shape_) + at] =
                used ? unit(c_.k_bits, 0.7) : std::byte{0xff};
            scales[codec::hot::v_scales_offset(shape_) + at] =
                used ? unit(c_.v_bits, 3.0) : std::byte{0xff};
        }
    }

    // [token][K, V][head_dim], without the mean.
    const std::vector<float>& decoded(size_t request, int32_t kv_head) const {
        auto& kv = decoded_[{request, kv_head}];
        if (!kv.empty()) return kv;
        const auto d = static_cast<size_t>(c_.head_dim);
        const auto tokens = static_cast<size_t>(blocks_of(request) * c_.block_tokens);
        kv.resize(tokens * 2 * d);
        for (int32_t b = 0; b < blocks_of(request); ++b) {
            codec::DecodePage job;
            job.spec = {3, static_cast<uint8_t>(c_.k_bits), static_cast<uint8_t>(c_.v_bits), 0, 1};
            job.geometry = {shape_.head_dim, 1, shape_.tokens, element()};
            const auto block =
                tables_[request * static_cast<size_t>(table_stride_) + static_cast<size_t>(b)];
            job.page = const_cast<World*>(this)->page(block, kv_head);
            job.k = kv.data() + static_cast<size_t>(b) * shape_.tokens * 2 * d;
            job.v = job.k + d;
            job.k_stride = job.v_stride = 2 * d;
            job.last = shape_.tokens;
            is_codes() ? codec::hot::ref_decode(job) : codec::raw16::ref_decode(job);
        }
        return kv;
    }

    Case c_;
    std::mt19937_64 rng_;
    codec::hot::Shape shape_{};
    size_t page_bytes_ = 0;
    int64_t table_stride_ = 0;
    int32_t n_blocks_ = 0;
    std::vector<int32_t> tables_;
    std::vector<std::byte> pages_;
    std::vector<float> q_, v_mean_;
    mutable std::map<std::pair<size_t, int32_t>, std::vector<float>> decoded_;
};

struct Got {
    std::vector<float> out, lse;
};

Got run_decode(const World& w, const Case& c, int32_t workers) {
    const DeviceArray<float> q(w.q()), v_mean(w.v_mean());
    const DeviceArray<float> out(std::vector<float>(w.q().size(), NAN));
    const DeviceArray<float> lse(std::vector<float>(w.n_rows(), NAN));
    const DeviceArray<int32_t> lengths(c.lengths), tables(w.tables());
    const DeviceArray<std::byte> pages(w.pages());
    DecodeParams p = w.params();
    const DeviceArray<std::byte> workspace(
        std::vector<std::byte>(kernels::cuda::decode_workspace_bytes(p, workers), std::byte{0xff}));
    p.q = q.data();
    p.out = out.data();
    p.lse = lse.data();
    p.lengths = lengths.data();
    p.blocks = tables.data();
    p.pages = pages.data();
    p.v_mean = v_mean.data();
    p.workspace = workspace.data();
    const char* why = kernels::cuda::decode_supports(p);
    CHECK(why == nullptr, describe(c) << ": " << why);
    gpu_testing::check_cuda(kernels::cuda::decode(p, workers, nullptr), "decode");
    return {out.read(), lse.read()};
}

// Weights, levels and queries are f16: errors of a part in some thousand.
void check_case(const Case& c, uint64_t seed) {
    const World w(c, seed);
    const int32_t workers = kernels::cuda::decode_blocks();
    CHECK(workers > 0, "decode_blocks: " << workers);
    const Got got = run_decode(w, c, workers);
    const Got again = run_decode(w, c, workers);
    CHECK(std::memcmp(got.out.data(), again.out.data(), got.out.size() * sizeof(float)) == 0,
          describe(c) << ": the same input gave other bits");
    const auto d = static_cast<size_t>(c.head_dim);
    std::vector<double> expected;
    for (size_t r = 0; r < c.lengths.size(); ++r) {
        for (int32_t i = 0; i < c.n_queries && c.lengths[r] > 0; ++i) {
            for (int32_t h = 0; h < c.group * c.kv_heads; ++h) {
                double lse = 0, energy = 0, error = 0;
                w.attend(r, i, h, expected, lse);
                const size_t row = w.row_of(r, i, h);
                for (size_t k = 0; k < d; ++k) {
                    const double difference = got.out[row * d + k] - expected[k];
                    energy += expected[k] * expected[k];
                    error += difference * difference;
                }
                CHECK(error <= 9e-6 * energy,
                      describe(c) << " seed " << seed << " length " << c.lengths[r] << " query "
                                  << i << " head " << h << ": error " << std::sqrt(error / energy));
                CHECK(std::fabs(got.lse[row] - lse) <= 2e-3 * std::max(1.0, std::fabs(lse)),
                      describe(c) << ": lse " << got.lse[row] << ", not " << lse);
            }
        }
    }
}

QUIRE_GPU_TEST(decode_every_width_and_head_dim) {
    uint64_t seed = 1;
    for (const int32_t d : {64, 96, 128, 192, 256})
        for (int bits = 2; bits <= 8; ++bits)
            check_case({.head_dim = d, .k_bits = bits, .v_bits = 10 - bits}, ++seed);
}

QUIRE_GPU_TEST(decode_every_block_size_group_and_number_of_queries) {
    uint64_t seed = 100;
    for (const int32_t block : {16, 32, 64, 128})
        for (const int32_t group : {1, 3, 8, 16})
            for (const int32_t queries : {1, 2, 4})
                check_case({.group = group,
                            .n_queries = queries,
                            .block_tokens = block,
                            .k_bits = 6,
                            .lengths = {4, 0, 17, 900, 64, 2048, 0}},
                           ++seed);
}

QUIRE_GPU_TEST(decode_more_rows_than_one_pass_takes) {
    uint64_t seed = 150;
    for (const int32_t d : {64, 96, 128, 192, 256})
        for (const int32_t queries : {3, 7})
            check_case({.head_dim = d,
                        .group = 8,
                        .n_queries = queries,
                        .v_bits = 3,
                        .window = queries == 7 ? 100 : 0,
                        .lengths = {7, 333, 3000}},
                       ++seed);
}

QUIRE_GPU_TEST(decode_windows_and_soft_caps) {
    uint64_t seed = 200;
    for (const int32_t window : {1, 20, 512})
        for (const float cap : {0.0f, 5.0f})
            for (const int32_t queries : {1, 2})
                check_case({.n_queries = queries,
                            .k_bits = 8,
                            .v_bits = 6,
                            .window = window,
                            .softcap = cap,
                            .lengths = {2, 19, 21, 511, 512, 513, 3000}},
                           ++seed);
}

QUIRE_GPU_TEST(decode_pages_of_numbers) {
    uint64_t seed = 400;
    for (const PagesHold hold : {PagesHold::f16, PagesHold::bf16}) {
        for (const int32_t d : {64, 96, 128, 192, 256})
            for (const int32_t queries : {1, 3})
                check_case({.head_dim = d,
                            .group = 8,
                            .n_queries = queries,
                            .hold = hold,
                            .lengths = {3, 31, 32, 33, 700, 3000}},
                           ++seed);
        for (const int32_t block : {16, 32, 64, 128})
            for (const int32_t window : {0, 1, 20, 512})
                check_case({.block_tokens = block,
                            .hold = hold,
                            .window = window,
                            .softcap = window == 20 ? 5.0f : 0.0f,
                            .lengths = {1, 19, 0, 21, 511, 513, 2000}},
                           ++seed);
    }
}

QUIRE_GPU_TEST(decode_one_long_request_and_many_short_ones) {
    check_case({.kv_heads = 1, .group = 8, .lengths = {100'000}}, 300);
    Case many;
    many.lengths.clear();
    std::mt19937_64 rng(5);
    for (int i = 0; i < 1500; ++i) many.lengths.push_back(static_cast<int32_t>(rng() % 60 + 1));
    many.kv_heads = 1;
    check_case(many, 301);
}

QUIRE_HOST_TEST(decode_divides_rows_by_heads) {
    constexpr int32_t kMost = kernels::cuda::kDecodeRowsMax;
    for (int32_t group = 1; group <= kMost; ++group) {
        const uint32_t reciprocal = kernels::cuda::reciprocal_of(static_cast<uint32_t>(group));
        for (int32_t row = 0; row < kMost; ++row)
            CHECK(kernels::cuda::query_of_row(row, reciprocal) == row / group,
                  row << " of groups of " << group);
    }
}

QUIRE_HOST_TEST(decode_says_why_not) {
    const World w({}, 1);
    alignas(128) static std::byte memory[128];
    DecodeParams good = w.params();
    good.q = good.workspace = memory;
    good.out = memory;
    good.pages = memory;
    good.lengths = good.blocks = reinterpret_cast<const int32_t*>(memory);
    CHECK(kernels::cuda::decode_supports(good) == nullptr, "a good one");
    const auto refused = [&](auto&& spoil, const char* word) {
        DecodeParams p = good;
        spoil(p);
        const char* why = kernels::cuda::decode_supports(p);
        CHECK(why != nullptr && std::strstr(why, word) != nullptr,
              word << ": " << (why == nullptr ? "accepted" : why));
    };
    refused([](DecodeParams& p) { p.head_dim = 80; }, "head_dim");
    refused([](DecodeParams& p) { p.block_tokens = 8; }, "block_tokens");
    refused([](DecodeParams& p) { p.n_queries = 600; }, "queries");
    refused([](DecodeParams& p) { p.kv_heads = 3; }, "kv_heads");
    refused([](DecodeParams& p) { p.v_bits = 0; }, "bits");
    refused([](DecodeParams& p) { p.scale = NAN; }, "scale");
    refused([](DecodeParams& p) { p.head_stride = 4096; }, "overlap");
    refused([](DecodeParams& p) { p.pages += 16; }, "aligned");
    refused([](DecodeParams& p) { p.workspace = memory + 64; }, "workspace");
    refused([](DecodeParams& p) { p.q = memory + 8; }, "aligned to 16");
    refused([](DecodeParams& p) { p.out_head_stride += 1; }, "strides");
    refused([](DecodeParams& p) { p.pages_hold = PagesHold::bf16; }, "overlap");
    DecodeParams empty = good;
    empty.n_requests = 0;
    empty.q = nullptr;
    CHECK(kernels::cuda::decode_supports(empty) == nullptr, "an empty batch");
    CHECK(kernels::cuda::decode(empty, 1, nullptr) == 0, "nothing to do needs no GPU");
}

}  // namespace
}  // namespace quire
