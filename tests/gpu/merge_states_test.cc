// Merged results against the same sums in double.
#include "kernels/cuda/attn/merge_states.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>

#include "check.h"
#include "core/half.h"
#include "device_memory.h"

namespace quire {
namespace {

using gpu_testing::DeviceArray;
using kernels::cuda::MergeParams;
using kernels::cuda::Numbers;

struct Case {
    int32_t n_parts = 2, n_tokens = 3, n_heads = 4, head_dim = 128;
    Numbers parts_element = Numbers::f32, element = Numbers::f32;
};

size_t bytes_of(Numbers element) {
    return element == Numbers::f32 ? 4 : 2;
}
// The number, as `element` has it; its bytes to `to`.
float keep(Numbers element, float x, std::byte* to) {
    if (element == Numbers::f32) {
        std::memcpy(to, &x, 4);
        return x;
    }
    const Element half = element == Numbers::f16 ? Element::f16 : Element::bf16;
    const uint16_t bits = from_f32(half, x);
    std::memcpy(to, &bits, 2);
    return to_f32(half, bits);
}
float number_at(Numbers element, const std::byte* from) {
    float x = 0;
    if (element == Numbers::f32) {
        std::memcpy(&x, from, 4);
        return x;
    }
    uint16_t bits = 0;
    std::memcpy(&bits, from, 2);
    return to_f32(element == Numbers::f16 ? Element::f16 : Element::bf16, bits);
}

// Of one part: random rows; a quarter of them nothing, with NaNs for numbers, some spoiled.
struct Part {
    std::vector<std::byte> bytes;
    std::vector<float> numbers, lse;

    Part(const Case& c, std::mt19937_64& rng) {
        const auto rows = static_cast<size_t>(c.n_tokens * c.n_heads);
        const auto d = static_cast<size_t>(c.head_dim);
        std::normal_distribution<float> normal;
        bytes.resize(rows * d * bytes_of(c.parts_element));
        for (size_t row = 0; row < rows; ++row) {
            const bool nothing = rng() % 4 == 0;
            lse.push_back(nothing ? -INFINITY : rng() % 16 == 0 ? NAN : 10 * normal(rng));
            for (size_t i = 0; i < d; ++i)
                numbers.push_back(keep(c.parts_element, nothing ? NAN : normal(rng),
                                       bytes.data() + (row * d + i) * bytes_of(c.parts_element)));
        }
    }
};

void check_rows(const Case& c, const std::vector<Part>& parts, const std::vector<std::byte>& out,
                const std::vector<float>& lse) {
    const auto d = static_cast<size_t>(c.head_dim);
    const double tolerance = c.element == Numbers::bf16 ? 5e-3 : 1e-3;
    for (size_t row = 0; row < lse.size(); ++row) {
        double top = -INFINITY, weight = 0;
        for (const Part& part : parts) top = std::max(top, double{part.lse[row]});
        std::vector<double> sums(d);
        for (const Part& part : parts) {
            if (part.lse[row] == -INFINITY) continue;
            const double w = std::exp(part.lse[row] - top);
            weight += w;
            for (size_t i = 0; i < d; ++i) sums[i] += w * part.numbers[row * d + i];
        }
        for (size_t i = 0; i < d; ++i) {
            const double expected = weight == 0 ? 0 : sums[i] / weight;
            const float got =
                number_at(c.element, out.data() + (row * d + i) * bytes_of(c.element));
            CHECK(std::isnan(expected)
                      ? std::isnan(got)
                      : std::fabs(got - expected) <= tolerance * std::max(1.0, std::fabs(expected)),
                  "row " << row << " dimension " << i << ": " << got << ", not " << expected);
        }
        if (weight == 0)
            CHECK(lse[row] == -INFINITY, "row " << row << " of nothing: lse " << lse[row]);
        else
            CHECK(std::isnan(weight) ? std::isnan(lse[row])
                                     : std::fabs(lse[row] - (top + std::log(weight))) < 1e-4,
                  "row " << row << ": lse " << lse[row]);
    }
}

void check_case(const Case& c, uint64_t seed) {
    std::mt19937_64 rng(seed);
    std::vector<Part> parts;
    std::vector<std::unique_ptr<DeviceArray<std::byte>>> outs;
    std::vector<std::unique_ptr<DeviceArray<float>>> lses;
    const auto rows = static_cast<size_t>(c.n_tokens * c.n_heads);
    const DeviceArray<std::byte> out(std::vector<std::byte>(
        rows * static_cast<size_t>(c.head_dim) * bytes_of(c.element), std::byte{0xff}));
    const DeviceArray<float> lse(std::vector<float>(rows, NAN));
    MergeParams p;
    p.n_parts = c.n_parts;
    p.n_tokens = c.n_tokens;
    p.n_heads = c.n_heads;
    p.head_dim = c.head_dim;
    p.parts_element = c.parts_element;
    p.element = c.element;
    p.out = out.data();
    p.head_stride = c.head_dim;
    p.token_stride = int64_t{c.head_dim} * c.n_heads;
    p.lse = lse.data();
    for (int32_t i = 0; i < c.n_parts; ++i) {
        parts.emplace_back(c, rng);
        outs.push_back(std::make_unique<DeviceArray<std::byte>>(parts.back().bytes));
        lses.push_back(std::make_unique<DeviceArray<float>>(parts.back().lse));
        p.parts[i] = {outs.back()->data(), lses.back()->data(), p.token_stride, p.head_stride};
    }
    const char* why = kernels::cuda::merge_states_supports(p);
    CHECK(why == nullptr, why);
    gpu_testing::check_cuda(kernels::cuda::merge_states(p, nullptr), "merge_states");
    check_rows(c, parts, out.read(), lse.read());
}

QUIRE_GPU_TEST(merge_states_of_every_kind_of_number) {
    uint64_t seed = 1;
    for (const Numbers parts : {Numbers::f32, Numbers::f16, Numbers::bf16})
        for (const Numbers element : {Numbers::f32, Numbers::f16, Numbers::bf16})
            for (const int32_t n : {1, 2, 3, 8})
                check_case({.n_parts = n, .parts_element = parts, .element = element}, ++seed);
}

QUIRE_GPU_TEST(merge_states_of_every_shape) {
    uint64_t seed = 100;
    for (const int32_t d : {8, 64, 80, 96, 128, 192, 256, 512})
        for (const int32_t tokens : {1, 2, 37})
            check_case({.n_tokens = tokens, .n_heads = 5, .head_dim = d}, ++seed);
}

QUIRE_HOST_TEST(merge_states_says_why_not) {
    alignas(16) static std::byte memory[16];
    MergeParams good;
    good.n_parts = 1;
    good.n_tokens = good.n_heads = 1;
    good.head_dim = 64;
    good.out = memory;
    good.parts[0] = {memory, reinterpret_cast<const float*>(memory), 64, 64};
    CHECK(kernels::cuda::merge_states_supports(good) == nullptr, "a good one");
    const auto refused = [&](auto&& spoil, const char* word) {
        MergeParams p = good;
        spoil(p);
        const char* why = kernels::cuda::merge_states_supports(p);
        CHECK(why != nullptr && std::strstr(why, word) != nullptr,
              word << ": " << (why == nullptr ? "accepted" : why));
    };
    refused([](MergeParams& p) { p.n_parts = 9; }, "n_parts");
    refused([](MergeParams& p) { p.head_dim = 60; }, "head_dim");
    refused([](MergeParams& p) { p.out = nullptr; }, "out");
    refused([](MergeParams& p) { p.out = memory + 4; }, "aligned");
    refused([](MergeParams& p) { p.parts[0].lse = nullptr; }, "lse");
    refused([](MergeParams& p) { p.parts[0].head_stride = 66; }, "parts");
}

}  // namespace
}  // namespace quire
