// tq2.5's own promises; conformance_test.cc has what every codec keeps.
#include "codec/split/split.h"

#include <gtest/gtest.h>

#include "codec/split/section.h"
#include "codec/testing/pages.h"

namespace quire::codec::split {
namespace {

using namespace codec::testing;

constexpr uint64_t kSeed = 7013;

const CodecSpec kSpec = *find_codec("tq2.5");

TEST(Split, TakesTwoAndAHalfBitsAndTwoScalesARow) {
    for (const uint32_t dims : {64u, 128u, 192u, 256u})
        EXPECT_DOUBLE_EQ(bits_per_element(kSpec, {.head_dim = dims}), 2.5 + 16.0 / dims);
    // Fewer where half of the dimensions are no sixteens.
    EXPECT_DOUBLE_EQ(bits_per_element(kSpec, {.head_dim = 80}), 2.4 + 16.0 / 80);
    EXPECT_EQ(check_geometry(kSpec, {.head_dim = 16}).code(), Code::unsupported);
}

TEST(Split, TheFirstOfTheOrderAreExacterThanTheOthers) {
    const Geometry g{.head_dim = 64, .block_tokens = 256};
    Rows rows(g, Kind::normal, kSeed);
    for (uint32_t i = 0; i < g.head_dim * g.head_dim; ++i)
        rows.k_map.forward[i] = rows.k_map.back[i] = i % (g.head_dim + 1) == 0 ? 1.0f : 0.0f;
    Page page(kSpec, g, 0);
    const PageCodecOps& ops = best_ops(row_of(kSpec));
    encode(ops, kSpec, rows, page, true);
    const Decoded out = decode(ops, kSpec, rows, page, true, true);
    double many = 0, few = 0;
    for (uint32_t t = 0; t < g.block_tokens; ++t)
        for (uint32_t i = 0; i < g.head_dim; ++i) {
            const size_t at = t * g.head_dim + rows.k_map.order[i];
            (i < 32 ? many : few) += std::pow(double{out.k[at]} - double{rows.k[at]}, 2);
        }
    EXPECT_GT(few, 3 * many);  // a bit is a factor of about 3.5
    EXPECT_LT(few / (g.block_tokens * 32.0), 0.3);
}

TEST(SplitSection, ComesBackAndIsRefusedWhenDamaged) {
    Sidecar sidecar{.model = {},
                    .layers = {{.kind = KvKind::full, .kv_heads = 2, .head_dim = 32},
                               {.kind = KvKind::full, .kv_heads = 1, .head_dim = 64}}};
    EXPECT_EQ(Orders::of(sidecar).error().code, Code::miss);
    Orders orders;
    std::mt19937_64 rng(kSeed);
    for (const SidecarLayer& layer : sidecar.layers) {
        orders.heads.emplace_back(layer.kv_heads);
        for (HeadOrders& head : orders.heads.back()) {
            head.k = Map(layer.head_dim, rng).order;
            head.v = Map(layer.head_dim, rng).order;
        }
    }
    orders.store(&sidecar);
    const auto back = Orders::of(sidecar);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back->heads, orders.heads);

    std::vector<std::byte> bytes = find_section(sidecar, kTag)->bytes;
    Sidecar cut = sidecar;
    set_section(&cut, {kTag, {bytes.begin(), bytes.end() - 2}});
    EXPECT_EQ(Orders::of(cut).error().code, Code::corrupt);
    for (const uint16_t bad : {orders.heads[0][0].k[1], uint16_t{32}}) {
        std::memcpy(bytes.data(), &bad, sizeof(bad));
        set_section(&sidecar, {kTag, bytes});
        EXPECT_EQ(Orders::of(sidecar).error().code, Code::corrupt) << bad;
    }
}

}  // namespace
}  // namespace quire::codec::split
