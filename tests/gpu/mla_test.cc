// Decode of MLA rows against the same in double, over the numbers that the CPU's oracle decodes.
#include "kernels/cuda/mla/mla.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include <cuda_bf16.h>

#include "check.h"
#include "codec/fp8/one.h"
#include "codec/mla/rows.h"
#include "core/half.h"
#include "device_memory.h"

namespace quire {
namespace {

using codec::mla::TileScale;
using gpu_testing::DeviceArray;
using kernels::cuda::kMlaValues;
using kernels::cuda::MlaParams;
using kernels::cuda::MlaRows;
using kernels::cuda::Numbers;

struct Case {
    int32_t n_heads = 128, n_queries = 1, block_tokens = 64;
    MlaRows rows = MlaRows::bf16;
    TileScale scale = TileScale::power_of_two;
    bool lists = false;
    Numbers out = Numbers::f32;
    std::vector<int32_t> lengths = {1, 63, 64, 65, 128, 700, 3000};
};

std::string describe(const Case& c) {
    return "heads " + std::to_string(c.n_heads) + " queries " + std::to_string(c.n_queries) +
           " block " + std::to_string(c.block_tokens) + " rows " +
           std::to_string(static_cast<int>(c.rows)) + (c.lists ? " lists" : "");
}

// Rows that no request has are all ones, which is NaN in every format.
class World {
 public:
    World(const Case& c, uint64_t seed) : c_(c), rng_(seed) {
        numbers_each_ = static_cast<size_t>(kernels::cuda::mla_numbers(c.rows));
        const auto tokens = static_cast<size_t>(c.block_tokens);
        block_bytes_ = c.rows == MlaRows::bf16  ? tokens * 2 * numbers_each_
                       : c.rows == MlaRows::v32 ? tokens * codec::mla::kV32Bytes
                                                : codec::mla::v4_block_bytes(c.block_tokens);
        block_stride_ = block_bytes_ + 64;  // blocks are not one behind the other
        const int32_t most = *std::max_element(c.lengths.begin(), c.lengths.end());
        table_stride_ = (most + c.block_tokens - 1) / c.block_tokens + 1;
        make_tables();
        make_rows();
        std::normal_distribution<float> normal(0.0f, 1.5f);
        q_.resize(n_rows() * numbers_each_);
        for (uint16_t& x : q_) x = f32_to_bf16(normal(rng_));
        if (c.lists) make_lists();
    }

    size_t n_rows() const {
        return c_.lengths.size() * static_cast<size_t>(c_.n_queries * c_.n_heads);
    }
    size_t row_of(size_t request, int32_t query, int32_t head) const {
        return (request * static_cast<size_t>(c_.n_queries) + static_cast<size_t>(query)) *
                   static_cast<size_t>(c_.n_heads) +
               static_cast<size_t>(head);
    }

    void attend(size_t request, int32_t query, int32_t head, std::vector<double>& out,
                double& lse) const {
        const uint16_t* q = q_.data() + row_of(request, query, head) * numbers_each_;
        std::vector<std::pair<double, const float*>> scores;
        for (const size_t token : keys(request, query)) {
            const float* k = numbers_.data() + token * numbers_each_;
            double x = 0;
            for (size_t i = 0; i < numbers_each_; ++i) x += double{bf16_to_f32(q[i])} * k[i];
            scores.emplace_back(x * scale(), k);
        }
        out.assign(kMlaValues, 0.0);
        lse = -std::numeric_limits<double>::infinity();
        if (scores.empty()) return;
        double top = lse, sum = 0;
        for (const auto& [x, k] : scores) top = std::max(top, x);
        for (const auto& [x, k] : scores) {
            const double weight = std::exp(x - top);
            sum += weight;
            for (size_t i = 0; i < kMlaValues; ++i) out[i] += weight * k[i];
        }
        for (double& x : out) x /= sum;
        lse = top + std::log(sum);
    }

    MlaParams params() const {
        MlaParams p;
        p.q_head_stride = static_cast<int64_t>(numbers_each_);
        p.q_token_stride = p.q_head_stride * c_.n_heads;
        p.out_head_stride = kMlaValues;
        p.out_token_stride = int64_t{kMlaValues} * c_.n_heads;
        p.out_element = c_.out;
        p.n_requests = static_cast<int32_t>(c_.lengths.size());
        p.n_queries = c_.n_queries;
        p.n_heads = c_.n_heads;
        p.block_tokens = c_.block_tokens;
        p.scale = scale();
        p.table_stride = table_stride_;
        p.list_stride = list_stride_;
        p.rows = c_.rows;
        p.n_blocks = n_blocks_;
        p.block_stride = static_cast<int64_t>(block_stride_);
        return p;
    }
    static float scale() { return 1.0f / 24; }

    const std::vector<uint16_t>& q() const { return q_; }
    const std::vector<int32_t>& tables() const { return tables_; }
    const std::vector<int64_t>& lists() const { return lists_; }
    const std::vector<std::byte>& pages() const { return pages_; }

 private:
    int32_t blocks_of(size_t request) const {
        return (c_.lengths[request] + c_.block_tokens - 1) / c_.block_tokens;
    }
    size_t slot(size_t request, int32_t token) const {
        const auto block =
            static_cast<size_t>(tables_[request * static_cast<size_t>(table_stride_) +
                                        static_cast<size_t>(token / c_.block_tokens)]);
        return block * static_cast<size_t>(c_.block_tokens) +
               static_cast<size_t>(token % c_.block_tokens);
    }
    std::vector<size_t> keys(size_t request, int32_t query) const {
        std::vector<size_t> keys;
        const int32_t end = c_.lengths[request] - c_.n_queries + query + 1;
        for (int32_t t = 0; t < end; ++t) {
            if (!c_.lists) {
                keys.push_back(slot(request, t));
                continue;
            }
            const int64_t at =
                lists_[request * static_cast<size_t>(list_stride_) + static_cast<size_t>(t)];
            if (at >= 0) keys.push_back(static_cast<size_t>(at));
        }
        return keys;
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

    // Some keys are far larger than those before them, so that sums must be rescaled.
    void make_rows() {
        pages_.assign(block_stride_ * static_cast<size_t>(n_blocks_), std::byte{0xff});
        numbers_.assign(static_cast<size_t>(n_blocks_ * c_.block_tokens) * numbers_each_, NAN);
        std::normal_distribution<float> normal(0.0f, 1.0f);
        for (size_t r = 0; r < c_.lengths.size(); ++r)
            for (int32_t t = 0; t < c_.lengths[r]; ++t) {
                const size_t at = slot(r, t), tokens = static_cast<size_t>(c_.block_tokens);
                const std::span<float> row(numbers_.data() + at * numbers_each_, numbers_each_);
                const float size = rng_() % 100 == 0 ? 6.0f : 1.0f;
                for (float& x : row) x = size * normal(rng_);
                store(row, {pages_.data() + at / tokens * block_stride_, block_bytes_},
                      static_cast<uint32_t>(at % tokens));
            }
    }
    // Codes of the row, and in its place what they decode to, as bf16.
    void store(std::span<float> row, std::span<std::byte> block, uint32_t token) const {
        const auto tokens = static_cast<uint32_t>(c_.block_tokens);
        if (c_.rows == MlaRows::v4) {
            const std::span<float, codec::mla::kV4Numbers> numbers(row);
            codec::mla::encode_v4(numbers, tokens, token, block);
            codec::mla::decode_v4(block, tokens, token, numbers);
        } else if (c_.rows == MlaRows::v32) {
            const std::span<float, codec::mla::kV32Numbers> numbers(row);
            const auto bytes =
                block.subspan(size_t{token} * codec::mla::kV32Bytes).first<codec::mla::kV32Bytes>();
            codec::mla::encode_v32(numbers, c_.scale, bytes);
            codec::mla::decode_v32(bytes, numbers);
            if (c_.scale == TileScale::exact) round_twice(bytes, row);
        }
        for (size_t i = 0; i < row.size(); ++i) {
            const uint16_t x = f32_to_bf16(row[i]);
            row[i] = bf16_to_f32(x);
            if (c_.rows == MlaRows::bf16)
                std::memcpy(block.data() + 2 * (token * row.size() + i), &x, 2);
        }
    }

    // Products take bf16, and a scale of 24 bits as the sum of two bf16. One number in a thousand
    // is rounded the other way than its exact product would be, which one large key's weight shows.
    static void round_twice(std::span<const std::byte, codec::mla::kV32Bytes> bytes,
                            std::span<float> row) {
        const auto nearest = [](double x) {
            return bf16_to_f32(f32_to_bf16(static_cast<float>(x)));
        };
        for (size_t i = 0; i < kMlaValues; ++i) {
            float scale = 0;
            std::memcpy(&scale, bytes.data() + kMlaValues + i / 128 * sizeof scale, sizeof scale);
            const float high = nearest(scale), low = nearest(scale - high);
            const float code =
                codec::fp8::value_of(codec::fp8::kE4m3, static_cast<uint8_t>(bytes[i]));
            row[i] = nearest(double{code} * high + nearest(double{code} * low));
        }
    }

    // Tokens of the request in any order, some missing.
    void make_lists() {
        list_stride_ = *std::max_element(c_.lengths.begin(), c_.lengths.end()) + 3;
        lists_.assign(c_.lengths.size() * static_cast<size_t>(list_stride_),
                      std::numeric_limits<int64_t>::max());
        for (size_t r = 0; r < c_.lengths.size(); ++r) {
            const auto begin = lists_.begin() + static_cast<int64_t>(r) * list_stride_;
            for (int32_t t = 0; t < c_.lengths[r]; ++t)
                begin[t] = rng_() % 50 == 0 ? -1 : static_cast<int64_t>(slot(r, t));
            std::shuffle(begin, begin + c_.lengths[r], rng_);
        }
    }

    Case c_;
    std::mt19937_64 rng_;
    size_t numbers_each_ = 0, block_bytes_ = 0, block_stride_ = 0;
    int64_t table_stride_ = 0, list_stride_ = 0;
    int32_t n_blocks_ = 0;
    std::vector<int32_t> tables_;
    std::vector<int64_t> lists_;
    std::vector<std::byte> pages_;
    std::vector<float> numbers_;  // [block][token][numbers_each_]
    std::vector<uint16_t> q_;
};

struct Got {
    std::vector<float> out, lse;
};

Got run_decode(const World& w, const Case& c, int32_t workers) {
    const DeviceArray<uint16_t> q(w.q());
    const DeviceArray<float> out(std::vector<float>(w.n_rows() * kMlaValues, NAN));
    const DeviceArray<float> lse(std::vector<float>(w.n_rows(), NAN));
    const DeviceArray<int32_t> lengths(c.lengths), tables(w.tables());
    const DeviceArray<int64_t> lists(w.lists());
    const DeviceArray<std::byte> pages(w.pages());
    MlaParams p = w.params();
    const DeviceArray<std::byte> workspace(
        std::vector<std::byte>(kernels::cuda::mla_workspace_bytes(p, workers), std::byte{0xff}));
    p.q = q.data();
    p.out = out.data();
    p.lse = lse.data();
    p.lengths = lengths.data();
    p.blocks = c.lists ? nullptr : tables.data();
    p.lists = c.lists ? lists.data() : nullptr;
    p.pages = pages.data();
    p.workspace = workspace.data();
    const char* why = kernels::cuda::mla_supports(p);
    CHECK(why == nullptr, describe(c) << ": " << why);
    gpu_testing::check_cuda(kernels::cuda::mla_decode(p, workers, nullptr), "mla_decode");
    return {out.read(), lse.read()};
}

std::vector<float> widen(const Case& c, const std::vector<float>& out) {
    if (c.out == Numbers::f32) return out;
    std::vector<float> wide(out.size());
    for (size_t i = 0; i < wide.size(); ++i) {
        uint16_t x;
        std::memcpy(&x, reinterpret_cast<const std::byte*>(out.data()) + 2 * i, 2);
        wide[i] = bf16_to_f32(x);
    }
    return wide;
}

// Some heads of every query. Weights are bf16: errors of a part in some hundred.
void check_rows(const World& w, const Case& c, const Got& got, uint64_t seed) {
    constexpr double kTolerance = 4.5e-3;
    const std::vector<float> result = widen(c, got.out);
    std::vector<double> expected;
    std::mt19937_64 rng(seed);
    for (size_t r = 0; r < c.lengths.size(); ++r)
        for (int32_t i = 0; i < c.n_queries && c.lengths[r] > 0; ++i)
            for (int32_t n = 0; n < 4; ++n) {
                const int32_t head =
                    n == 0   ? 0
                    : n == 1 ? c.n_heads - 1
                             : static_cast<int32_t>(rng() % static_cast<uint64_t>(c.n_heads));
                double lse = 0, energy = 0, error = 0;
                w.attend(r, i, head, expected, lse);
                const size_t row = w.row_of(r, i, head);
                for (size_t k = 0; k < kMlaValues; ++k) {
                    const double difference = result[row * kMlaValues + k] - expected[k];
                    energy += expected[k] * expected[k];
                    error += difference * difference;
                }
                CHECK(error <= kTolerance * kTolerance * energy,
                      describe(c) << " seed " << seed << " length " << c.lengths[r] << " query "
                                  << i << " head " << head << ": error "
                                  << std::sqrt(error / energy) << ", first "
                                  << result[row * kMlaValues] << ", not " << expected[0]);
                CHECK(got.lse[row] == lse ||
                          std::fabs(got.lse[row] - lse) <= 1e-3 * std::max(1.0, std::fabs(lse)),
                      describe(c) << ": lse " << got.lse[row] << ", not " << lse);
            }
}

void check_case(const Case& c, uint64_t seed) {
    const World w(c, seed);
    const int32_t workers = kernels::cuda::mla_workers();
    CHECK(workers > 0, "mla_workers: " << workers);
    const Got got = run_decode(w, c, workers);
    const Got again = run_decode(w, c, workers);
    CHECK(std::memcmp(got.out.data(), again.out.data(), got.out.size() * sizeof(float)) == 0,
          describe(c) << ": the same input gave other bits");
    check_rows(w, c, got, seed);
}

QUIRE_GPU_TEST(mla_small) {
    check_case({.lengths = {64}}, 1);
}

QUIRE_GPU_TEST(mla_bf16) {
    check_case({}, 2);
}

QUIRE_GPU_TEST(mla_every_block_size_and_number_of_heads) {
    uint64_t seed = 10;
    for (const int32_t block : {16, 32, 64, 128})
        for (const int32_t heads : {16, 48, 64, 80, 128})
            check_case({.n_heads = heads, .block_tokens = block, .lengths = {1, 0, 17, 900, 64}},
                       ++seed);
}

QUIRE_GPU_TEST(mla_several_queries) {
    uint64_t seed = 40;
    for (const int32_t queries : {2, 3, 4, 9})
        for (const int32_t heads : {16, 64, 128})
            check_case({.n_heads = heads, .n_queries = queries, .lengths = {9, 0, 70, 129, 1000}},
                       ++seed);
}

QUIRE_GPU_TEST(mla_one_long_request_and_many_short_ones) {
    check_case({.n_heads = 16, .lengths = {30'000}}, 60);
    Case many;
    many.n_heads = 16;
    many.lengths.clear();
    std::mt19937_64 rng(5);
    for (int i = 0; i < 1500; ++i) many.lengths.push_back(static_cast<int32_t>(rng() % 60 + 1));
    check_case(many, 61);
}

QUIRE_GPU_TEST(mla_lists) {
    check_case({.lists = true}, 80);
    check_case({.n_heads = 16, .block_tokens = 16, .lists = true, .lengths = {0, 2048, 5}}, 81);
}

void check_codes(MlaRows rows, uint64_t seed) {
    check_case({.rows = rows}, seed);
    for (const int32_t block : {16, 32, 128})
        for (const int32_t heads : {32, 64})
            check_case({.n_heads = heads,
                        .n_queries = 2,
                        .block_tokens = block,
                        .rows = rows,
                        .lengths = {2, 0, 17, 900, 64}},
                       ++seed);
    check_case({.rows = rows, .lists = true, .lengths = {500, 0, 2048, 1}}, ++seed);
    check_case({.n_heads = 16, .rows = rows, .lists = true, .lengths = {500, 0, 2048}}, ++seed);
}

QUIRE_GPU_TEST(mla_v32) {
    check_codes(MlaRows::v32, 100);
    check_case({.rows = MlaRows::v32, .scale = TileScale::exact}, 120);
}

QUIRE_GPU_TEST(mla_v4) {
    check_codes(MlaRows::v4, 140);
}

QUIRE_GPU_TEST(mla_bf16_results) {
    check_case({.out = Numbers::bf16, .lengths = {500, 1}}, 70);
}

QUIRE_HOST_TEST(mla_says_why_not) {
    const World w({}, 1);
    alignas(128) static std::byte memory[128];
    MlaParams good = w.params();
    good.q = good.workspace = memory;
    good.out = memory;
    good.pages = memory;
    good.lengths = good.blocks = reinterpret_cast<const int32_t*>(memory);
    CHECK(kernels::cuda::mla_supports(good) == nullptr, "a good one");
    const auto refused = [&](auto&& spoil, const char* word) {
        MlaParams p = good;
        spoil(p);
        const char* why = kernels::cuda::mla_supports(p);
        CHECK(why != nullptr && std::strstr(why, word) != nullptr,
              word << ": " << (why == nullptr ? "accepted" : why));
    };
    refused([](MlaParams& p) { p.n_heads = 8; }, "n_heads");
    refused([](MlaParams& p) { p.n_heads = 144; }, "n_heads");
    refused([](MlaParams& p) { p.block_tokens = 8; }, "block_tokens");
    refused([](MlaParams& p) { p.n_queries = 0; }, "n_queries");
    refused([](MlaParams& p) { p.scale = NAN; }, "scale");
    refused([](MlaParams& p) { p.rows = static_cast<MlaRows>(7); }, "rows");
    refused([](MlaParams& p) { p.out_element = Numbers::f16; }, "out_element");
    refused([](MlaParams& p) { p.block_stride = 1152; }, "overlap");
    refused([](MlaParams& p) { p.n_blocks = 0; }, "n_blocks");
    refused([](MlaParams& p) { p.pages += 8; }, "aligned");
    refused([](MlaParams& p) { p.q_head_stride = 577; }, "q must");
    refused([](MlaParams& p) { p.workspace = memory + 64; }, "workspace");
    refused([](MlaParams& p) { p.blocks = nullptr; }, "blocks");
    MlaParams empty = good;
    empty.n_requests = 0;
    empty.q = nullptr;
    CHECK(kernels::cuda::mla_supports(empty) == nullptr, "an empty batch");
    CHECK(kernels::cuda::mla_decode(empty, 1, nullptr) == 0, "nothing to do needs no GPU");
}

}  // namespace
}  // namespace quire
