#include "codec/vectors/ec_vectors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#include "codec/ec/block.h"
#include "codec/vectors/golden.h"

namespace quire::codec {
namespace {

constexpr uint32_t kEcLayers = 2;
constexpr uint32_t kEcDim = 16;
constexpr uint32_t kEcTokens = 24;
constexpr double kEcBits = 3;

// A sixteenth of `numbers`, and more on the diagonal of the first kEcDim rows.
std::vector<float> near_identity(std::span<const float> numbers, float diagonal) {
    std::vector<float> out(numbers.begin(), numbers.end());
    for (float& x : out) x /= 16;
    for (size_t i = 0; i < kEcDim; ++i) out[i * kEcDim + i] += diagonal;
    return out;
}

// Counts of integers fall by powers of two, faster in lower classes.
std::vector<ec::ClassModel> ec_vector_classes() {
    std::vector<ec::ClassModel> classes(ec::kClasses);
    for (uint32_t c = 0; c < ec::kClasses; ++c) {
        std::array<double, ec::kSymbols> counts{};
        for (int32_t s = -ec::kLargest; s <= ec::kLargest; ++s)
            counts[static_cast<size_t>(s + ec::kLargest)] =
                std::ldexp(1, -std::abs(s) * 8 / static_cast<int32_t>(c + 1));
        classes[c].frequencies = ec::RansTable::fit(counts);
        classes[c].shrink_one = 0.0625f;
        classes[c].shrink_more = 0.03125f;
    }
    return classes;
}

ec::HeadModel ec_vector_head(uint64_t seed, size_t heads_before) {
    // Of 64 tokens, so that K and V of the input make matrices of any size that is needed.
    const GoldenInput in = golden_input(kEcDim, 64, seed);
    constexpr size_t kMatrix = size_t{kEcDim} * kEcDim;
    const std::span numbers(in.k);
    ec::HeadModel head{.head_dim = kEcDim, .step = 1 + 0.25f * static_cast<float>(seed % 3)};
    head.mean = in.k_mean;
    head.components = near_identity(std::span(in.k_forward).first(kMatrix), 1);
    head.restore = near_identity(std::span(in.k_back).first(kMatrix), 1);
    for (uint32_t d = 0; d < kEcDim; ++d)
        head.deviations.push_back(std::ldexp(1.0f, 2 - static_cast<int>(d / 4)));
    head.spreads.resize(kEcDim, 2.5f);
    // The last rows of the input are plain numbers.
    if (heads_before > 0)
        head.weights = near_identity(numbers.subspan(16 * kEcDim, heads_before * kMatrix), 0.5f);
    return head;
}

ec::Model ec_vector_model() {
    ec::Model model{.classes = ec_vector_classes()};
    for (uint32_t l = 0; l < kEcLayers; ++l) {
        // Each head is foretold by all of the layer before, values by their keys too.
        model.k.push_back({ec_vector_head(11 + 2 * l, l == 0 ? 0 : 2)});
        model.v.push_back({ec_vector_head(12 + 2 * l, l == 0 ? 1 : 3)});
        model.layers.push_back({KvKind::full, 1, kEcDim, 0});
    }
    return model;
}

// Numbers beyond 2^20 and what is no number became zeros.
std::vector<float> ec_vector_rows(uint32_t layer, bool values) {
    const GoldenInput in = golden_input(kEcDim, kEcTokens, layer + 1);
    std::vector<float> rows = values ? in.v : in.k;
    for (float& x : rows)
        if (!(std::fabs(x) < 0x1p20f)) x = 0;
    return rows;
}

}  // namespace

std::vector<std::byte> ec_vectors(const ec::Kernels& kernels) {
    std::vector<std::byte> all;
    const auto put = [&](const auto& numbers) {
        const auto bytes = std::as_bytes(std::span(numbers));
        all.insert(all.end(), bytes.begin(), bytes.end());
    };
    const auto put_count = [&](size_t n) { put(std::array{static_cast<uint32_t>(n)}); };
    const ec::Model model = ec_vector_model();
    Sidecar sidecar;
    model.store(&sidecar);
    put_count(sidecar.sections[0].bytes.size());
    put(sidecar.sections[0].bytes);
    for (const auto* side : {&model.k, &model.v})
        for (const auto& layer : *side) put(layer[0].mean);
    ec::BlockCoder coder = ec::BlockCoder::create(model, {0, 1}, kEcBits).value();
    coder.use(kernels);
    ec::BlockScratch scratch;
    std::vector<std::byte> block;
    coder.encode(
        kEcTokens,
        [](uint32_t layer, const ec::LayerRows& rows) {
            std::ranges::copy(ec_vector_rows(layer, false), rows.k.begin());
            std::ranges::copy(ec_vector_rows(layer, true), rows.v.begin());
        },
        &scratch, &block);
    put_count(block.size());
    put(block);
    const Status decoded = coder.decode(
        block, kEcTokens,
        [&](uint32_t, const ec::LayerRows& rows) {
            put(rows.k);
            put(rows.v);
        },
        &scratch);
    if (!decoded.ok()) all.clear();
    return all;
}

}  // namespace quire::codec
