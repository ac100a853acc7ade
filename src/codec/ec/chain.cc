#include "codec/ec/chain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "base/check.h"

namespace quire::codec::ec {
namespace {

constexpr int kWeightMax = 127;
constexpr float kWeightLargest = 0x1p100f;

// matrix [inputs][outputs] in panels.
std::vector<float> in_panels(const std::vector<float>& matrix, uint32_t inputs, uint32_t outputs) {
    std::vector<float> out(matrix.size());
    for (size_t i = 0; i < inputs; ++i)
        for (size_t o = 0; o < outputs; ++o)
            out[(o / kPanel * inputs + i) * kPanel + o % kPanel] = matrix[i * outputs + o];
    return out;
}

std::vector<float> transposed(const std::vector<float>& matrix, uint32_t n) {
    std::vector<float> out(matrix.size());
    for (size_t i = 0; i < n; ++i)
        for (size_t j = 0; j < n; ++j) out[j * n + i] = matrix[i * n + j];
    return out;
}

// The power of two at or below the spread of each component.
std::vector<float> sizes_of(const HeadModel& head) {
    std::vector<float> sizes;
    for (const float spread : head.spreads) {
        int exponent = 0;
        std::frexp(std::clamp(spread, 0x1p-40f, 0x1p40f), &exponent);
        sizes.push_back(std::ldexp(1.0f, exponent - 1));
    }
    return sizes;
}

// `weights` [dims][outputs] of an earlier head whose components have these sizes.
Foretelling foretelling(uint32_t back, const std::vector<float>& sizes,
                        const std::vector<float>& weights, uint32_t outputs) {
    const auto dims = static_cast<uint32_t>(sizes.size());
    Foretelling out{.back = back, .dims = dims};
    out.weights.resize(weights.size());
    for (size_t o = 0; o < outputs; ++o) {
        float largest = 0;
        // Of any numbers: what a float cannot hold is the largest that it can.
        constexpr float kMost = std::numeric_limits<float>::max();
        const auto weight = [&](size_t i) {
            return std::clamp(weights[i * outputs + o] * sizes[i], -kMost, kMost);
        };
        for (size_t i = 0; i < dims; ++i) largest = std::max(largest, std::fabs(weight(i)));
        // Weights whose scale would be no number above 0 are zeros.
        constexpr float kLeast = std::numeric_limits<float>::min() * (kWeightMax + 1);
        const float scale = largest > kLeast ? std::min(largest, kWeightLargest) / kWeightMax : 1;
        int32_t sum = 0;
        for (size_t i = 0; i < dims; ++i) {
            const auto w = static_cast<int8_t>(std::nearbyint(
                std::clamp(weight(i) / scale, float{-kWeightMax}, float{kWeightMax})));
            const size_t panel = o / kPanel * (dims / kQuad) + i / kQuad;
            out.weights[(panel * kPanel + o % kPanel) * kQuad + i % kQuad] = w;
            sum += w;
        }
        out.offsets.push_back(-kHistoryZero * sum);
        out.scales.push_back(scale);
    }
    return out;
}

// The heads of one layer, in the order of coding.
std::vector<const HeadModel*> heads_of(const Model& model, uint32_t layer) {
    std::vector<const HeadModel*> heads;
    for (const auto* side : {&model.k, &model.v})
        for (const HeadModel& head : (*side)[layer]) heads.push_back(&head);
    return heads;
}

bool same_kind(const SidecarLayer& a, const SidecarLayer& b) {
    return a.kind == b.kind && a.window_tokens == b.window_tokens;
}

// The layer before it of the same kind; -1: none.
int32_t before(const Model& model, int32_t layer) {
    const SidecarLayer& own = model.layers[static_cast<size_t>(layer)];
    while (--layer >= 0 && !same_kind(model.layers[static_cast<size_t>(layer)], own)) {
    }
    return layer;
}

size_t numbers_of(const SidecarLayer& layer) {
    return size_t{2} * layer.kv_heads * layer.head_dim;
}

// Numbers of layers right before the one at chain[place] that stand before it in the chain too.
size_t numbers_in_reach(const Model& model, std::span<const uint16_t> chain, size_t place) {
    size_t numbers = 0;
    while (place > 0) {
        const int32_t wanted = before(model, chain[place]);
        if (chain[--place] != wanted) break;
        numbers += numbers_of(model.layers[chain[place]]);
    }
    return numbers;
}

// Calls f(head, whether all that foretells it stands before it in the chain) for heads of the layer
// at chain[place].
template <typename F>
void each_reach(const Model& model, std::span<const uint16_t> chain, size_t place, const F& f) {
    size_t decoded = numbers_in_reach(model, chain, place);
    for (const HeadModel* head : heads_of(model, chain[place])) {
        f(head, head->weights.size() / head->head_dim <= decoded);
        decoded += head->head_dim;
    }
}

// What nothing foretells.
void forget(HeadModel* head) {
    head->weights.clear();
    head->deviations = head->spreads;
}

}  // namespace

HeadPlan::HeadPlan(const HeadModel& head)
    : dims(head.head_dim),
      step(head.step),
      mean(head.mean),
      deviations(head.deviations),
      components(in_panels(transposed(head.components, dims), dims, dims)),
      restore(in_panels(head.restore, dims, dims)) {
    for (const float size : sizes_of(head)) inverse.push_back(1 / size);
}

Rate BlockCoder::Chain::rate_of(float step) const {
    Rate out{.step = step};
    out.classes.reserve(components);
    for (const HeadPlan& head : heads)
        for (const float deviation : head.deviations)
            out.classes.push_back(
                static_cast<uint8_t>(class_of(double{deviation}, double{step * head.step})));
    out.order.resize(components);
    for (const Layer& layer : layers) {
        const std::span own = std::span(out.order).subspan(layer.first_component, layer.components);
        std::iota(own.begin(), own.end(), 0u);
        std::ranges::stable_sort(
            own, {}, [&](uint32_t c) { return out.classes[layer.first_component + c]; });
    }
    return out;
}

Components BlockCoder::Chain::components_of(const HeadPlan& head, const Rate& own,
                                            uint32_t stride) const {
    const float step = own.step * head.step;
    return {.step = step,
            .inverse = 1 / step,
            .shrinks = shrinks.data(),
            .classes = own.classes.data() + head.first_component,
            .dims = head.dims,
            .stride = stride};
}

SymbolRows BlockCoder::Chain::symbols_of(const Layer& layer, const Rate& own, uint32_t tokens,
                                         uint32_t stride) const {
    return {.tables = tables.data(),
            .classes = own.classes.data() + layer.first_component,
            .order = own.order.data() + layer.first_component,
            .components = layer.components,
            .tokens = tokens,
            .stride = stride};
}

Status check_chain(const Model& model, std::span<const uint16_t> chain) {
    if (chain.empty() || model.layers.size() != model.k.size())
        return make_error(Code::invalid, "ec: a chain without layers");
    for (size_t i = 0; i < chain.size(); ++i)
        if (chain[i] >= model.layers.size() || (i > 0 && chain[i] <= chain[i - 1]))
            return make_error(Code::invalid, "ec: a chain of layers that the model does not have");
    for (size_t i = 0; i < chain.size(); ++i) {
        const SidecarLayer& layer = model.layers[chain[i]];
        if (layer.head_dim == 0 || layer.head_dim % kLanes != 0)
            return make_error(Code::unsupported,
                              fmt::format("ec: heads of {} numbers in layer {}; it needs a "
                                          "multiple of {}",
                                          layer.head_dim, chain[i], kLanes));
        bool reached = true;
        each_reach(model, chain, i, [&](const HeadModel*, bool own) { reached &= own; });
        if (!reached)
            return make_error(Code::unsupported,
                              fmt::format("ec: layer {} is foretold from layers that are not "
                                          "stored with it",
                                          chain[i]));
    }
    return {};
}

Model Model::within(std::span<const std::vector<uint16_t>> chains) const {
    Model out = *this;
    std::set<const HeadModel*> kept;
    for (const std::vector<uint16_t>& chain : chains)
        for (size_t i = 0; i < chain.size(); ++i)
            each_reach(out, chain, i, [&](const HeadModel* head, bool reached) {
                if (reached) kept.insert(head);
            });
    for (auto* side : {&out.k, &out.v})
        for (std::vector<HeadModel>& layer : *side)
            for (HeadModel& head : layer)
                if (!kept.contains(&head)) forget(&head);
    return out;
}

std::vector<std::vector<uint16_t>> chains_of(std::span<const SidecarLayer> layers) {
    std::vector<std::vector<uint16_t>> chains;
    for (size_t i = 0; i < layers.size(); ++i) {
        const auto own = std::ranges::find_if(
            chains, [&](const auto& chain) { return same_kind(layers[chain[0]], layers[i]); });
        if (own == chains.end())
            chains.push_back({static_cast<uint16_t>(i)});
        else
            own->push_back(static_cast<uint16_t>(i));
    }
    return chains;
}

namespace {

// Weights for the last numbers, split by the heads that have them; the farthest head's first
// numbers may have none.
std::vector<Foretelling> split_weights(const HeadModel& head,
                                       std::span<const HeadModel* const> decoded) {
    std::vector<Foretelling> out;
    const size_t outputs = head.head_dim;
    size_t left = head.weights.size() / outputs;
    for (uint32_t back = 1; left > 0; ++back) {
        QUIRE_CHECK(back <= decoded.size(), "ec: weights beyond the chain");
        const HeadModel& from = *decoded[decoded.size() - back];
        const size_t inputs = std::min(left, size_t{from.head_dim});
        std::vector<float> weights((from.head_dim - inputs) * outputs);
        const auto first = head.weights.begin() + static_cast<int64_t>((left - inputs) * outputs);
        weights.insert(weights.end(), first, first + static_cast<int64_t>(inputs * outputs));
        out.push_back(foretelling(back, sizes_of(from), weights, head.head_dim));
        left -= inputs;
    }
    std::ranges::reverse(out);
    return out;
}

}  // namespace

Result<BlockCoder> BlockCoder::create(const Model& model, std::vector<uint16_t> chain,
                                      double bits) {
    QUIRE_TRY(check_chain(model, chain));
    auto made = std::make_shared<Chain>();
    std::vector<const HeadModel*> decoded;
    for (const uint16_t layer : chain) {
        const SidecarLayer& shape = model.layers[layer];
        made->layers.push_back({shape.kv_heads, shape.head_dim, made->heads.size(),
                                made->components,
                                static_cast<uint32_t>(numbers_of(shape))});
        for (const HeadModel* head : heads_of(model, layer)) {
            HeadPlan plan(*head);
            plan.foretold_by = split_weights(*head, decoded);
            plan.first_component = made->components;
            made->components += plan.dims;
            made->dims_max = std::max(made->dims_max, plan.dims);
            for (const Foretelling& one : plan.foretold_by) {
                made->heads[made->heads.size() - one.back].foretells = true;
                made->reach = std::max(made->reach, one.back);
            }
            made->heads.push_back(std::move(plan));
            decoded.push_back(head);
        }
    }
    made->numbers.resize(made->dims_max);
    std::iota(made->numbers.begin(), made->numbers.end(), uint16_t{0});
    for (const ClassModel& one : model.classes) {
        made->tables.emplace_back(one.frequencies);
        made->shrinks.push_back({one.shrink_one, one.shrink_more});
    }
    const Coder coder(model);
    // Blocks name their step as a float, and the nearest one may lie just outside.
    const auto low = static_cast<float>(coder.steps().low);
    const auto high = static_cast<float>(coder.steps().high);
    made->step_low = double{std::nextafter(low, 0.0f)};
    made->step_high = double{std::nextafter(high, std::numeric_limits<float>::infinity())};
    made->rate = made->rate_of(static_cast<float>(coder.step_for(bits)));
    return BlockCoder(std::move(made), best_kernels());
}

uint32_t BlockCoder::layers() const {
    return static_cast<uint32_t>(chain_->layers.size());
}

}  // namespace quire::codec::ec
