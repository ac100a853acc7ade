// Attention of chunks of prompts against the same in double.
#include "kernels/cuda/attn/prefill.h"

#include "attention_device.h"

namespace quire {
namespace {

using gpu_testing::Case;
using gpu_testing::check_rows;
using gpu_testing::check_same_bits;
using gpu_testing::Got;
using gpu_testing::run_prefill;
using gpu_testing::World;
using kernels::cuda::PagesHold;
using kernels::cuda::PrefillParams;

// Levels times scales are rounded too.
void check_case(const Case& c, uint64_t seed) {
    const World w(c, seed);
    const Got got = run_prefill(w, c);
    check_same_bits(c, got, run_prefill(w, c));
    check_rows(w, c, got, {.row = 4e-3});
}

QUIRE_GPU_TEST(prefill_every_width_and_head_dim) {
    uint64_t seed = 1;
    for (const int32_t d : {64, 96, 128, 256})
        for (int bits = 2; bits <= 8; ++bits)
            check_case({.head_dim = d,
                        .k_bits = bits,
                        .v_bits = 10 - bits,
                        .lengths = {1, 40, 300},
                        .queries = {1, 40, 50}},
                       ++seed);
}

QUIRE_GPU_TEST(prefill_pages_of_numbers) {
    uint64_t seed = 100;
    for (const PagesHold hold : {PagesHold::f16, PagesHold::bf16})
        for (const int32_t d : {64, 96, 128, 256})
            for (const int32_t block : {16, 64})
                check_case({.head_dim = d,
                            .block_tokens = block,
                            .hold = hold,
                            .lengths = {1, 40, 300},
                            .queries = {1, 40, 50}},
                           ++seed);
}

QUIRE_GPU_TEST(prefill_every_block_size_and_group) {
    uint64_t seed = 200;
    for (const int32_t block : {16, 32, 64, 128})
        for (const int32_t group : {1, 3, 16})
            check_case({.group = group,
                        .block_tokens = block,
                        .lengths = {77, 0, 33, 400},
                        .queries = {3, 0, 33, 17}},
                       ++seed);
}

QUIRE_GPU_TEST(prefill_windows_and_soft_caps) {
    uint64_t seed = 300;
    for (const PagesHold hold : {PagesHold::codes, PagesHold::bf16})
        for (const int32_t window : {1, 20, 200})
            for (const float cap : {0.0f, 5.0f})
                check_case({.k_bits = 8,
                            .v_bits = 6,
                            .hold = hold,
                            .window = window,
                            .softcap = cap,
                            .lengths = {9, 511, 64},
                            .queries = {9, 70, 1}},
                           ++seed);
}

QUIRE_GPU_TEST(prefill_all_keys_for_all_queries) {
    uint64_t seed = 400;
    for (const PagesHold hold : {PagesHold::codes, PagesHold::f16})
        check_case({.kv_heads = 1,
                    .group = 8,
                    .hold = hold,
                    .lengths = {700, 0, 33},
                    .queries = {64, 3, 100},
                    .causal = false},
                   ++seed);
}

QUIRE_GPU_TEST(prefill_chunks_of_thousands_of_tokens) {
    check_case({.kv_heads = 1, .group = 2, .lengths = {2500, 1000}, .queries = {1500, 1000}}, 500);
}

QUIRE_HOST_TEST(prefill_says_why_not) {
    const World w({}, 1);
    alignas(128) static std::byte memory[128];
    PrefillParams good = w.params<PrefillParams>();
    good.n_tokens = 100;
    good.q = good.workspace = memory;
    good.out = memory;
    good.pages = memory;
    good.lengths = good.blocks = good.first_tokens = reinterpret_cast<const int32_t*>(memory);
    CHECK(kernels::cuda::prefill_supports(good) == nullptr, "a good one");
    const auto refused = [&](auto&& spoil, const char* word) {
        PrefillParams p = good;
        spoil(p);
        const char* why = kernels::cuda::prefill_supports(p);
        CHECK(why != nullptr && std::strstr(why, word) != nullptr,
              word << ": " << (why == nullptr ? "accepted" : why));
    };
    refused([](PrefillParams& p) { p.head_dim = 192; }, "head_dim");
    refused([](PrefillParams& p) { p.n_tokens = -1; }, "n_tokens");
    refused([](PrefillParams& p) { p.first_tokens = nullptr; }, "first_tokens");
    refused([](PrefillParams& p) { p.causal = false, p.window = 5; }, "window");
    refused([](PrefillParams& p) { p.v_bits = 9; }, "bits");
    PrefillParams empty = good;
    empty.n_requests = 0;
    CHECK(kernels::cuda::prefill(empty, 1, nullptr) == 0, "nothing to do needs no GPU");
}

}  // namespace
}  // namespace quire
