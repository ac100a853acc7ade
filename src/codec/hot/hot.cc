#include "codec/hot/hot.h"

#include <array>

#include "codec/families.h"
#include "codec/isa_ops.h"
#include "codec/limits.h"

namespace quire::codec::hot {
namespace {

constexpr uint8_t kFamily = 3;
constexpr uint16_t kVersion = 1;
constexpr int kWidths = kMaxBits - kMinBits + 1;

constexpr CodecSpec make_spec(int k_bits, int v_bits) {
    return {kFamily, static_cast<uint8_t>(k_bits), static_cast<uint8_t>(v_bits), 0, kVersion};
}

// k8v8 first, v running faster.
constexpr auto all_specs() {
    std::array<CodecSpec, size_t{kWidths} * kWidths> specs{};
    size_t n = 0;
    for (int k = kMaxBits; k >= kMinBits; --k)
        for (int v = kMaxBits; v >= kMinBits; --v) specs[n++] = make_spec(k, v);
    return specs;
}
constexpr auto kSpecs = all_specs();

std::string name_of(const CodecSpec& spec) {
    return "k" + std::to_string(spec.k_bits) + "v" + std::to_string(spec.v_bits);
}

struct Alias {
    std::string_view name;
    CodecSpec spec;
};
constexpr Alias kAliases[] = {{"i8r", make_spec(8, 8)},
                              {"i6r", make_spec(6, 6)},
                              {"i4r", make_spec(4, 4)},
                              {"tq4", make_spec(4, 4)},
                              {"tq3", make_spec(3, 3)}};

std::optional<CodecSpec> parse(std::string_view name) {
    for (const Alias& alias : kAliases)
        if (alias.name == name) return alias.spec;
    for (const CodecSpec& spec : kSpecs)
        if (name_of(spec) == name) return spec;
    return std::nullopt;
}

}  // namespace

CodecRow row() {
    return {
        .family = kFamily,
        .version = kVersion,
        .folder = "hot",
        .pattern = "k{2..8}v{2..8}",
        .summary = "rotated, mean removed, K and V of their own width, one byte of scale a row",
        .unit = Unit::token,
        .can = {.random_access = true, .fused = true},
        .specs = [] { return std::span<const CodecSpec>(kSpecs); },
        .parse = parse,
        .name = name_of,
        .unsupported = [](const CodecSpec&, const Geometry& g) { return common_limits(g); },
        .page_bytes = [](const CodecSpec& spec,
                         const Geometry& g) { return page_bytes(shape_of(spec, g)); },
        .ops =
            isa_ops<ref_encode, ref_decode, avx2_encode, avx2_decode, avx512_encode, avx512_decode>,
    };
}

}  // namespace quire::codec::hot
