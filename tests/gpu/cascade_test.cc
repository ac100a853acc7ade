// Requests that share prefixes: as if each had all of its keys.
#include "kernels/cuda/attn/cascade.h"

#include "attention_device.h"

namespace quire {
namespace {

using gpu_testing::Case;
using gpu_testing::check_rows;
using gpu_testing::check_same_bits;
using gpu_testing::device_blocks;
using gpu_testing::DeviceArray;
using gpu_testing::DeviceWorld;
using gpu_testing::Got;
using gpu_testing::spoiled_workspace;
using gpu_testing::World;
using kernels::cuda::CascadeParams;
using kernels::cuda::PagesHold;

// Groups of so many requests, with prefixes of so many blocks. The requests of a group have the
// first one's blocks for their prefix.
struct Groups {
    std::vector<int32_t> requests, prefix_blocks;

    std::vector<int32_t> first_requests() const {
        std::vector<int32_t> first = {0};
        for (const int32_t n : requests) first.push_back(first.back() + n);
        return first;
    }
};

void share_prefixes(World& w, const Groups& groups) {
    const std::vector<int32_t> first = groups.first_requests();
    for (size_t g = 0; g < groups.requests.size(); ++g)
        for (int32_t r = first[g] + 1; r < first[g + 1]; ++r)
            w.share_blocks(first[g], r, groups.prefix_blocks[g]);
}

// Tables of what is left of each request behind its prefix.
struct OwnTables {
    std::vector<int32_t> lengths, blocks, prefix_lengths, prefix_blocks;

    OwnTables(const World& w, const Case& c, const Groups& groups, int64_t stride)
        : lengths(c.lengths), blocks(w.tables()) {
        const auto each = static_cast<size_t>(stride);
        const std::vector<int32_t> first = groups.first_requests();
        for (size_t g = 0; g < groups.requests.size(); ++g) {
            const auto shared = static_cast<size_t>(groups.prefix_blocks[g]);
            prefix_lengths.push_back(groups.prefix_blocks[g] * c.block_tokens);
            const auto row = w.tables().begin() + static_cast<int64_t>(first[g]) * stride;
            prefix_blocks.insert(prefix_blocks.end(), row, row + stride);
            for (auto r = static_cast<size_t>(first[g]); r < static_cast<size_t>(first[g + 1]);
                 ++r) {
                lengths[r] -= prefix_lengths.back();
                std::copy(blocks.begin() + static_cast<int64_t>(r * each + shared),
                          blocks.begin() + static_cast<int64_t>((r + 1) * each),
                          blocks.begin() + static_cast<int64_t>(r * each));
            }
        }
    }
};

Got run_cascade(const World& w, const Case& c, const Groups& groups) {
    CascadeParams p;
    p.own = w.params<kernels::cuda::DecodeParams>();
    const OwnTables own(w, c, groups, p.own.table_stride);
    const DeviceWorld on_device(w, own.lengths, own.blocks);
    const DeviceArray<int32_t> prefix_lengths(own.prefix_lengths), prefixes(own.prefix_blocks);
    const DeviceArray<int32_t> first(groups.first_requests());
    const int32_t blocks = device_blocks();
    on_device.point(p.own);
    p.own.n_queries = c.n_queries;
    p.n_groups = static_cast<int32_t>(groups.requests.size());
    p.first_requests = first.data();
    p.prefix_lengths = prefix_lengths.data();
    p.prefix_blocks = prefixes.data();
    p.prefix_table_stride = p.own.table_stride;
    const auto workspace = spoiled_workspace(kernels::cuda::cascade_workspace_bytes(p, blocks));
    p.workspace = workspace.data();
    const char* why = kernels::cuda::cascade_supports(p);
    CHECK(why == nullptr, describe(c) << ": " << why);
    gpu_testing::check_cuda(kernels::cuda::cascade(p, blocks, nullptr), "cascade");
    return on_device.got();
}

void check_case(const Case& c, const Groups& groups, uint64_t seed) {
    World w(c, seed);
    share_prefixes(w, groups);
    const Got got = run_cascade(w, c, groups);
    check_same_bits(c, got, run_cascade(w, c, groups));
    check_rows(w, c, got, {.row = 4e-3});
}

QUIRE_GPU_TEST(cascade_of_groups) {
    uint64_t seed = 1;
    // The last request of the first group has no keys but the prefix's; the third has no prefix;
    // the last request is of no group.
    const Groups groups = {{3, 2, 1}, {4, 3, 0}};
    for (const PagesHold hold : {PagesHold::codes, PagesHold::f16, PagesHold::bf16})
        for (const int32_t queries : {1, 2})
            check_case({.group = 8,
                        .n_queries = queries,
                        .hold = hold,
                        .lengths = {300, 256 + queries, queries == 1 ? 256 : 270, 193 + queries,
                                    700, 77, 90}},
                       groups, ++seed);
}

QUIRE_GPU_TEST(cascade_of_every_head_dim) {
    uint64_t seed = 50;
    for (const int32_t d : {64, 96, 128, 256})
        check_case({.head_dim = d, .k_bits = 6, .v_bits = 3, .lengths = {500, 450, 449}},
                   {{3}, {7}}, ++seed);
}

QUIRE_HOST_TEST(cascade_says_why_not) {
    const World w({}, 1);
    alignas(128) static std::byte memory[128];
    CascadeParams good;
    good.own = w.params<kernels::cuda::DecodeParams>();
    good.own.q = good.own.out = memory;
    good.own.pages = memory;
    good.workspace = memory;
    good.own.lengths = good.own.blocks = good.first_requests = good.prefix_lengths =
        good.prefix_blocks = reinterpret_cast<const int32_t*>(memory);
    good.n_groups = 1;
    CHECK(kernels::cuda::cascade_supports(good) == nullptr, "a good one");
    const auto refused = [&](auto&& spoil, const char* word) {
        CascadeParams p = good;
        spoil(p);
        const char* why = kernels::cuda::cascade_supports(p);
        CHECK(why != nullptr && std::strstr(why, word) != nullptr,
              word << ": " << (why == nullptr ? "accepted" : why));
    };
    refused([](CascadeParams& p) { p.own.window = 5; }, "window");
    refused([](CascadeParams& p) { p.n_groups = -1; }, "n_groups");
    refused([](CascadeParams& p) { p.own.head_dim = 192; }, "head_dim");
    refused([](CascadeParams& p) { p.first_requests = nullptr; }, "first_tokens");
    refused([](CascadeParams& p) { p.workspace = memory + 64; }, "workspace");
}

}  // namespace
}  // namespace quire
