#include "codec/sidecar.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "codec/sidecar_format.h"

namespace quire::codec {
namespace {

constexpr uint8_t kMinBits = 2;
constexpr uint8_t kMaxBits = 8;

Error invalid(std::string why) {
    return make_error(Code::invalid, "the sidecar " + std::move(why));
}

Status check_layers(const std::vector<SidecarLayer>& layers) {
    if (layers.empty() || layers.size() > kMaxSidecarLayers)
        return invalid(fmt::format("has {} layers, not 1 to {}", layers.size(), kMaxSidecarLayers));
    for (size_t l = 0; l < layers.size(); ++l) {
        const SidecarLayer& layer = layers[l];
        if (layer.kind > KvKind::window)
            return invalid(fmt::format("has a layer {} of an unknown kind", l));
        if ((layer.kind == KvKind::window) != (layer.window_tokens > 0))
            return invalid(fmt::format("has a layer {} whose window does not fit its kind", l));
        if (layer.kv_heads == 0 || layer.kv_heads > kMaxKvHeads || layer.head_dim == 0 ||
            layer.head_dim > kMaxHeadDim)
            return invalid(fmt::format("has a layer {} with {} KV heads and head_dim {}", l,
                                       layer.kv_heads, layer.head_dim));
    }
    return {};
}

Status check_vectors(const char* what, const std::vector<float>& numbers, size_t expected) {
    if (numbers.empty()) return {};
    if (numbers.size() != expected)
        return invalid(fmt::format("has {} numbers of {}; its layers need {}", numbers.size(), what,
                                   expected));
    const auto bad = std::ranges::find_if_not(numbers, [](float x) { return std::isfinite(x); });
    if (bad == numbers.end()) return {};
    return invalid(
        fmt::format("has a number of {} that is not finite, at {}", what, bad - numbers.begin()));
}

Status check_key_pairs(const Sidecar& s) {
    if (!s.key_pairs) return {};
    uint32_t most = kMaxKeyPairs;
    for (const SidecarLayer& layer : s.layers) most = std::min(most, layer.head_dim / 2);
    if (*s.key_pairs <= most) return {};
    return invalid(fmt::format("turns {} pairs of each head; its heads have {} that can be",
                               *s.key_pairs, most));
}

Status check_bits(const Sidecar& s) {
    if (s.bits.empty()) return {};
    if (s.bits.size() != s.layers.size())
        return invalid(
            fmt::format("has widths for {} of {} layers", s.bits.size(), s.layers.size()));
    for (const LayerBits& bits : s.bits)
        for (const uint8_t width : {bits.k, bits.v})
            if (width < kMinBits || width > kMaxBits)
                return invalid(
                    fmt::format("has a width of {} bits, not {} to {}", width, kMinBits, kMaxBits));
    return {};
}

Status check_sensitivity(const Sidecar& s) {
    if (s.sensitivity.empty()) return {};
    if (s.sensitivity.size() != s.layers.size())
        return invalid(fmt::format("has sensitivities for {} of {} layers", s.sensitivity.size(),
                                   s.layers.size()));
    for (const LayerSensitivity& one : s.sensitivity)
        for (const float x : {one.k, one.v})
            if (!(std::isfinite(x) && x >= 0))
                return invalid("has a sensitivity that is not a number from 0 up");
    return {};
}

Status check_sections(const std::vector<SidecarSection>& sections) {
    if (sections.size() > kMaxSections)
        return invalid(fmt::format("has {} sections, more than {}", sections.size(), kMaxSections));
    for (size_t i = 0; i < sections.size(); ++i) {
        if (std::ranges::count(kOwnTags, sections[i].tag) != 0)
            return invalid(
                fmt::format("has a section of its own name, {}", tag_text(sections[i].tag)));
        if (i > 0 && sections[i].tag <= sections[i - 1].tag)
            return invalid("has sections out of order");
    }
    return {};
}

std::string text_of(const SidecarLayer& layer) {
    std::string text = fmt::format("{} KV heads of {}", layer.kv_heads, layer.head_dim);
    if (layer.kind == KvKind::window) text += fmt::format(", window {}", layer.window_tokens);
    return text;
}

}  // namespace

std::string tag_text(uint32_t tag) {
    std::string text;
    for (int i = 0; i < 4; ++i, tag >>= 8) {
        const auto letter = static_cast<char>(tag & 0xff);
        text += letter >= ' ' && letter <= '~' ? letter : '?';
    }
    return text;
}

std::vector<SidecarLayer> sidecar_layers(const KvLayout& layout) {
    std::vector<SidecarLayer> layers;
    for (const KvGroup& group : layout.groups)
        for (const uint16_t layer : group.layers) {
            if (layers.size() <= layer) layers.resize(size_t{layer} + 1);
            layers[layer] = {group.kind, group.kv_heads, group.head_dim, group.window_tokens};
        }
    return layers;
}

size_t vector_floats(const std::vector<SidecarLayer>& layers) {
    size_t floats = 0;
    for (const SidecarLayer& layer : layers) floats += size_t{layer.kv_heads} * layer.head_dim;
    return floats;
}

size_t vector_offset(const Sidecar& sidecar, uint32_t layer, uint32_t head) {
    QUIRE_CHECK(layer < sidecar.layers.size() && head < sidecar.layers[layer].kv_heads,
                "a vector of a head that the sidecar has not");
    size_t floats = size_t{head} * sidecar.layers[layer].head_dim;
    for (uint32_t l = 0; l < layer; ++l)
        floats += size_t{sidecar.layers[l].kv_heads} * sidecar.layers[l].head_dim;
    return floats;
}

HeadSidecar head_sidecar(const Sidecar& sidecar, uint32_t layer, uint32_t head) {
    const size_t at = vector_offset(sidecar, layer, head);
    HeadSidecar one;
    if (!sidecar.k_mean.empty()) one.k_mean = sidecar.k_mean.data() + at;
    if (!sidecar.v_mean.empty()) one.v_mean = sidecar.v_mean.data() + at;
    return one;
}

const SidecarSection* find_section(const Sidecar& sidecar, uint32_t tag) {
    const auto at = std::ranges::lower_bound(sidecar.sections, tag, {}, &SidecarSection::tag);
    return at != sidecar.sections.end() && at->tag == tag ? &*at : nullptr;
}

void set_section(Sidecar* sidecar, SidecarSection section) {
    auto& all = sidecar->sections;
    const auto at = std::ranges::lower_bound(all, section.tag, {}, &SidecarSection::tag);
    if (at != all.end() && at->tag == section.tag)
        *at = std::move(section);
    else
        all.insert(at, std::move(section));
}

Status check_sidecar(const Sidecar& s) {
    QUIRE_TRY(check_layers(s.layers));
    const size_t floats = vector_floats(s.layers);
    QUIRE_TRY(check_vectors("key means", s.k_mean, floats));
    QUIRE_TRY(check_vectors("value means", s.v_mean, floats));
    QUIRE_TRY(check_vectors("key means before RoPE", s.k_mean_before, floats));
    QUIRE_TRY(check_key_pairs(s));
    QUIRE_TRY(check_bits(s));
    QUIRE_TRY(check_sensitivity(s));
    QUIRE_TRY(check_sections(s.sections));
    const uint64_t bytes = sidecar_file_bytes(s);
    if (bytes > kMaxSidecarBytes)
        return invalid(fmt::format("takes {} bytes, more than {}", bytes, kMaxSidecarBytes));
    return {};
}

Status match_sidecar(const Sidecar& sidecar, ModelId model, const KvLayout& layout) {
    const auto miss = [](std::string why) {
        return make_error(Code::miss, "the sidecar " + std::move(why) +
                                          "; `quire calibrate MODEL` makes one for this model");
    };
    const std::vector<SidecarLayer> layers = sidecar_layers(layout);
    if (sidecar.layers.size() != layers.size())
        return miss(
            fmt::format("has {} layers and the model {}", sidecar.layers.size(), layers.size()));
    for (size_t l = 0; l < layers.size(); ++l)
        if (sidecar.layers[l] != layers[l])
            return miss(fmt::format("has a layer {} with {}, and the model {}", l,
                                    text_of(sidecar.layers[l]), text_of(layers[l])));
    if (sidecar.model != model)
        return miss("is of model " + sidecar.model.value.to_hex() + ", not " +
                    model.value.to_hex());
    return {};
}

}  // namespace quire::codec
