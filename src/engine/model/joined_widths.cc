#include "engine/model/joined_widths.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace quire {
namespace {

// Layers with one pair of widths.
struct WidthClass {
    codec::LayerBits bits;
    std::vector<uint16_t> layers;
};

codec::LayerBits larger(const codec::LayerBits& a, const codec::LayerBits& b) {
    return {std::max(a.k, b.k), std::max(a.v, b.v)};
}

// Bits that the layers of both would gain, in widths.
size_t cost_of_joining(const WidthClass& a, const WidthClass& b) {
    const codec::LayerBits both = larger(a.bits, b.bits);
    const auto grown = [&](const WidthClass& c) {
        return c.layers.size() * static_cast<size_t>(both.k - c.bits.k + both.v - c.bits.v);
    };
    return grown(a) + grown(b);
}

void join_cheapest(std::vector<WidthClass>& classes) {
    std::pair<size_t, size_t> best{0, 1};
    for (size_t i = 0; i < classes.size(); ++i)
        for (size_t j = i + 1; j < classes.size(); ++j)
            if (cost_of_joining(classes[i], classes[j]) <
                cost_of_joining(classes[best.first], classes[best.second]))
                best = {i, j};
    WidthClass& kept = classes[best.first];
    WidthClass& gone = classes[best.second];
    kept.bits = larger(kept.bits, gone.bits);
    kept.layers.insert(kept.layers.end(), gone.layers.begin(), gone.layers.end());
    classes.erase(classes.begin() + static_cast<ptrdiff_t>(best.second));
}

}  // namespace

std::vector<codec::LayerBits> join_widths(std::vector<codec::LayerBits> bits,
                                          const KvLayout& layout,
                                          const std::vector<uint16_t>& exact) {
    const auto is_exact = [&](uint16_t layer) { return std::ranges::binary_search(exact, layer); };
    const size_t plain = layout.groups.size();
    const auto with_exact = static_cast<size_t>(std::ranges::count_if(
        layout.groups,
        [&](const KvGroup& group) { return std::ranges::any_of(group.layers, is_exact); }));
    const size_t most = std::max<size_t>(1, (kMaxGroups - plain - with_exact) / plain);
    for (const KvGroup& group : layout.groups) {
        std::vector<WidthClass> classes;
        for (const uint16_t layer : group.layers) {
            if (is_exact(layer)) continue;
            const auto at = std::ranges::find(classes, bits[layer], &WidthClass::bits);
            if (at == classes.end())
                classes.push_back({bits[layer], {layer}});
            else
                at->layers.push_back(layer);
        }
        while (classes.size() > most) join_cheapest(classes);
        for (const WidthClass& c : classes)
            for (const uint16_t layer : c.layers) bits[layer] = c.bits;
    }
    return bits;
}

}  // namespace quire
