// i2c's own promises; conformance_test.cc has what every codec keeps.
#include "codec/i2c/i2c.h"

#include <gtest/gtest.h>

#include "codec/i2c/section.h"
#include "codec/testing/pages.h"

namespace quire::codec::i2c {
namespace {

using namespace codec::testing;

constexpr uint64_t kSeed = 7001;

CodecSpec spec_of(const char* name) {
    return *find_codec(name);
}

TEST(I2c, WithoutMatricesPagesAreThoseOfTheHotFamily) {
    for (const auto& [name, same] : {std::pair{"i2c", "k2v2"}, {"i3c", "k3v3"}, {"i4c", "k4v4"}}) {
        const Rows rows({.head_dim = 96}, Kind::heavy_tails, kSeed);
        Page ours(spec_of(name), rows.g, 0), hot(spec_of(same), rows.g, 0);
        encode(best_ops(row_of(spec_of(name))), spec_of(name), rows, ours);
        encode(best_ops(row_of(spec_of(same))), spec_of(same), rows, hot);
        EXPECT_TRUE(ours == hot) << name;
    }
}

// Rows that lie near a line, a dimension apart: what a matrix is there for.
TEST(I2c, AMatrixThatMakesDimensionsAlikeLowersTheError) {
    const Geometry g{.head_dim = 64};
    Rows rows(g, Kind::normal, kSeed);
    for (uint32_t d = 0; d < g.head_dim; ++d) {
        const float size = d % 2 == 0 ? 16.0f : 0.25f;
        for (uint32_t t = 0; t < g.block_tokens; ++t) {
            rows.k[t * g.head_dim + d] *= size;
            rows.v[t * g.head_dim + d] *= size;
        }
        // What an error costs is 1 / size^2: the small ones matter as much as the large ones.
        for (uint32_t i = 0; i < g.head_dim; ++i) {
            rows.k_map.forward[d * g.head_dim + i] = d == i ? 1 / size : 0.0f;
            rows.k_map.back[d * g.head_dim + i] = d == i ? size : 0.0f;
        }
    }
    rows.v_map = rows.k_map;
    rows.k_mean.assign(g.head_dim, 0.0f);
    rows.v_mean.assign(g.head_dim, 0.0f);
    const auto cost = [&](bool with_matrix) {
        Page page(spec_of("i2c"), g, 0);
        const PageCodecOps& ops = best_ops(row_of(spec_of("i2c")));
        encode(ops, spec_of("i2c"), rows, page, with_matrix);
        const Decoded out = decode(ops, spec_of("i2c"), rows, page, true, with_matrix);
        double sum = 0;
        for (size_t i = 0; i < out.k.size(); ++i) {
            const double weight = i % 2 == 0 ? 1 / 256.0 : 16.0;
            sum += weight * std::pow(double{out.k[i]} - double{rows.k[i]}, 2);
        }
        return sum / static_cast<double>(out.k.size());
    };
    EXPECT_LT(cost(true), 0.15);
    EXPECT_GT(cost(false), 20 * cost(true));
}

Sidecar bare_sidecar() {
    return {.model = {},
            .layers = {{.kind = KvKind::full, .kv_heads = 2, .head_dim = 16},
                       {.kind = KvKind::full, .kv_heads = 1, .head_dim = 32}}};
}

TEST(I2cSection, ComesBackAndIsRefusedWhenDamaged) {
    Sidecar sidecar = bare_sidecar();
    EXPECT_EQ(Matrices::of(sidecar).error().code, Code::miss);
    Matrices matrices;
    float next = 0.5f;
    for (const SidecarLayer& layer : sidecar.layers) {
        matrices.heads.emplace_back(layer.kv_heads);
        for (HeadMatrices& head : matrices.heads.back())
            for (auto* m : {&head.k_forward, &head.k_back, &head.v_forward, &head.v_back})
                for (uint32_t i = 0; i < layer.head_dim * layer.head_dim; ++i)
                    m->push_back(next += 0.25f);
    }
    matrices.store(&sidecar);
    const auto back = Matrices::of(sidecar);
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(back->heads, matrices.heads);
    EXPECT_EQ(back->heads[1][0].k_map().back, back->heads[1][0].k_back.data());

    std::vector<std::byte> bytes = find_section(sidecar, kTag)->bytes;
    Sidecar cut = sidecar;
    set_section(&cut, {kTag, {bytes.begin(), bytes.end() - 4}});
    EXPECT_EQ(Matrices::of(cut).error().code, Code::corrupt);
    const float infinity = std::numeric_limits<float>::infinity();
    std::memcpy(bytes.data() + 64, &infinity, sizeof(infinity));
    set_section(&sidecar, {kTag, bytes});
    EXPECT_EQ(Matrices::of(sidecar).error().code, Code::corrupt);
}

}  // namespace
}  // namespace quire::codec::i2c
