#include <algorithm>
#include <bit>
#include <cstring>

#include "base/rng.h"
#include "codec/vectors/golden.h"

namespace quire::codec {
namespace {

// Nearly normal with deviation 2, and exact: the sum of three 20-bit integers, centred.
float draw(uint64_t& state) {
    int64_t sum = 0;
    for (int i = 0; i < 3; ++i) sum += static_cast<int64_t>(Rng::splitmix(state) >> 44);
    return static_cast<float>(sum - 3 * (int64_t{1} << 19)) * 0x1p-18f;
}

// All dimensions, by a number drawn for each.
std::vector<uint16_t> draw_order(uint32_t head_dim, uint64_t& state) {
    std::vector<std::pair<uint64_t, uint16_t>> drawn;
    for (uint32_t d = 0; d < head_dim; ++d)
        drawn.emplace_back(Rng::splitmix(state), static_cast<uint16_t>(d));
    std::ranges::sort(drawn);
    std::vector<uint16_t> order;
    for (const auto& [number, dim] : drawn) order.push_back(dim);
    return order;
}

// Rows that are not like the others.
void make_special(uint32_t token, std::span<float> row) {
    const auto scale = [&](float factor) {
        for (float& x : row) x *= factor;
    };
    switch (token) {
        case 1:
            return scale(0.0f);
        case 3:
            for (float& x : row) x = 1.5f;
            return;
        case 5:
            row[5] = std::bit_cast<float>(0x7fc00000u);
            return;
        case 6:
            row[2] *= 128.0f;
            return;
        case 7:
            return scale(0x1p-14f);
        case 8:
            return scale(0x1p40f);
        case 9:
            return scale(0x1p-130f);
        default:
            return;
    }
}

}  // namespace

GoldenInput golden_input(uint32_t head_dim, uint32_t block_tokens, uint64_t seed) {
    GoldenInput in;
    uint64_t state = seed;
    for (std::vector<float>* side : {&in.k, &in.v})
        for (uint32_t i = 0; i < block_tokens * head_dim; ++i) side->push_back(draw(state));
    for (std::vector<float>* mean : {&in.k_mean, &in.v_mean})
        for (uint32_t i = 0; i < head_dim; ++i) mean->push_back(draw(state));
    for (auto* matrix : {&in.k_forward, &in.k_back, &in.v_forward, &in.v_back})
        for (uint32_t i = 0; i < head_dim * head_dim; ++i) matrix->push_back(draw(state));
    for (auto* order : {&in.k_order, &in.v_order}) *order = draw_order(head_dim, state);
    for (std::vector<float>* side : {&in.k, &in.v})
        for (uint32_t t = 0; t < block_tokens; ++t)
            make_special(t, std::span(*side).subspan(size_t{t} * head_dim, head_dim));
    return in;
}

}  // namespace quire::codec
