// Attention over codes against the same in double, over the numbers that the CPU's oracle decodes.
#include "kernels/cuda/attn/decode.h"

#include "attention_device.h"
#include "kernels/cuda/attn/launch.h"
#include "kernels/cuda/attn/merge_states.h"

namespace quire {
namespace {

using codec::fp8::Scaling;
using gpu_testing::Case;
using gpu_testing::check_rows;
using gpu_testing::check_same_bits;
using gpu_testing::DeviceArray;
using gpu_testing::Got;
using gpu_testing::run_decode;
using gpu_testing::World;
using kernels::cuda::DecodeParams;
using kernels::cuda::MergeParams;
using kernels::cuda::Numbers;
using kernels::cuda::PagesHold;

void check_case(const Case& c, uint64_t seed) {
    const World w(c, seed);
    const Got got = run_decode(w, c);
    check_same_bits(c, got, run_decode(w, c));
    check_rows(w, c, got);
}

QUIRE_GPU_TEST(decode_every_width_and_head_dim) {
    uint64_t seed = 1;
    for (const int32_t d : {64, 80, 96, 128, 192, 256})
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
    for (const int32_t d : {64, 80, 96, 128, 192, 256})
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
        for (const int32_t d : {64, 80, 96, 128, 192, 256})
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

QUIRE_GPU_TEST(decode_pages_of_fp8) {
    uint64_t seed = 500;
    for (const PagesHold hold : {PagesHold::fp8_e4m3, PagesHold::fp8_e5m2}) {
        for (const Scaling scaling : {Scaling::one, Scaling::head, Scaling::token}) {
            for (const int32_t d : {64, 80, 96, 128, 192, 256})
                for (const int32_t queries : {1, 3})
                    check_case({.head_dim = d,
                                .group = 8,
                                .n_queries = queries,
                                .hold = hold,
                                .lengths = {3, 31, 32, 33, 700, 3000},
                                .scaling = scaling},
                               ++seed);
            for (const int32_t block : {16, 32, 64, 128})
                for (const int32_t window : {0, 20, 512})
                    check_case({.block_tokens = block,
                                .hold = hold,
                                .window = window,
                                .softcap = window == 20 ? 5.0f : 0.0f,
                                .lengths = {1, 19, 0, 21, 511, 513, 2000},
                                .scaling = scaling},
                               ++seed);
            check_case({.hold = hold, .lengths = {9, 33, 40}, .scaling = scaling, .spoiled = true},
                       ++seed);
        }
    }
}

QUIRE_GPU_TEST(decode_all_keys_for_every_query) {
    uint64_t seed = 600;
    for (const PagesHold hold : {PagesHold::codes, PagesHold::bf16, PagesHold::fp8_e4m3})
        for (const int32_t queries : {1, 5})
            check_case({.n_queries = queries,
                        .hold = hold,
                        .lengths = {1, 3, 0, 32, 700},
                        .causal = false},
                       ++seed);
}

// Sinks and recent tokens in 16 bits, with a table of their own, what is between them as codes.
QUIRE_GPU_TEST(decode_exact_tokens_beside_codes) {
    const Case exact = {
        .n_queries = 3, .hold = PagesHold::bf16, .lengths = {3, 4 + 64, 4 + 70, 4 + 128}};
    const Case middle = {
        .n_queries = 3, .k_bits = 3, .lengths = {0, 2, 640, 3000}, .causal = false};
    const World near(exact, 700);
    World far(middle, 701);
    far.use_queries_of(near);
    const Got parts[] = {run_decode(near, exact), run_decode(far, middle)};
    const DeviceArray<float> outs[] = {DeviceArray<float>(parts[0].out),
                                       DeviceArray<float>(parts[1].out)};
    const DeviceArray<float> lses[] = {DeviceArray<float>(parts[0].lse),
                                       DeviceArray<float>(parts[1].lse)};
    const DecodeParams p = near.params<DecodeParams>();
    MergeParams merge;
    for (int i = 0; i < 2; ++i)
        merge.parts[i] = {outs[i].data(), lses[i].data(), p.out_token_stride, p.out_head_stride};
    merge.n_parts = 2;
    merge.n_tokens = p.n_requests * exact.n_queries;
    merge.n_heads = p.n_heads;
    merge.head_dim = p.head_dim;
    merge.element = Numbers::f32;
    merge.out = outs[0].data();
    merge.token_stride = p.out_token_stride;
    merge.head_stride = p.out_head_stride;
    gpu_testing::check_cuda(kernels::cuda::merge_states(merge, nullptr), "merge");
    const std::vector<float> got = outs[0].read();
    std::vector<double> a, b;
    for (size_t r = 0; r < exact.lengths.size(); ++r) {
        for (int32_t i = 0; i < exact.n_queries; ++i) {
            for (int32_t h = 0; h < p.n_heads; ++h) {
                double lse_a = 0, lse_b = -INFINITY, energy = 0, error = 0;
                near.attend(r, i, h, a, lse_a);
                b.assign(a.size(), 0.0);
                if (middle.lengths[r] > 0) far.attend(r, i, h, b, lse_b);
                const double share = 1 / (1 + std::exp(lse_b - lse_a));
                for (size_t d = 0; d < a.size(); ++d) {
                    const double expected = share * a[d] + (1 - share) * b[d];
                    const double x = got[near.row_of(r, i, h) * a.size() + d] - expected;
                    energy += expected * expected;
                    error += x * x;
                }
                CHECK(error <= 9e-6 * energy, "request " << r << " query " << i << " head " << h
                                                         << ": " << std::sqrt(error / energy));
            }
        }
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
    DecodeParams good = w.params<DecodeParams>();
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
    refused([](DecodeParams& p) { p.head_dim = 112; }, "head_dim");
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
    refused([](DecodeParams& p) { p.pages_hold = PagesHold::fp8_e4m3; }, "overlap");
    refused([](DecodeParams& p) { p.all_keys = p.window = 1; }, "window");
    refused(
        [](DecodeParams& p) {
            p.pages_hold = PagesHold::fp8_e5m2;
            p.scaling = Scaling::head;
        },
        "scales");
    DecodeParams empty = good;
    empty.n_requests = 0;
    empty.q = nullptr;
    CHECK(kernels::cuda::decode_supports(empty) == nullptr, "an empty batch");
    CHECK(kernels::cuda::decode(empty, 1, nullptr) == 0, "nothing to do needs no GPU");
}

}  // namespace
}  // namespace quire
