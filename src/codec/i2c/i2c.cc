#include "codec/i2c/i2c.h"

#include <array>

#include "codec/families.h"
#include "codec/isa_ops.h"
#include "codec/limits.h"

namespace quire::codec::i2c {
namespace {

constexpr uint8_t kFamily = 7;
constexpr uint16_t kVersion = 1;
constexpr std::array kSpecs = {CodecSpec{kFamily, 4, 4, 0, kVersion},
                               CodecSpec{kFamily, 3, 3, 0, kVersion},
                               CodecSpec{kFamily, 2, 2, 0, kVersion}};

std::string name_of(const CodecSpec& spec) {
    return "i" + std::to_string(spec.k_bits) + "c";
}

std::optional<CodecSpec> parse(std::string_view name) {
    for (const CodecSpec& spec : kSpecs)
        if (name_of(spec) == name) return spec;
    return std::nullopt;
}

}  // namespace

CodecRow row() {
    return {
        .family = kFamily,
        .version = kVersion,
        .folder = "i2c",
        .pattern = "i{2..4}c",
        .summary = "turned by a calibrated matrix a head (none: Hadamard alone), then as k2v2",
        .unit = Unit::token,
        .can = {.random_access = true},
        .specs = [] { return std::span<const CodecSpec>(kSpecs); },
        .parse = parse,
        .name = name_of,
        .unsupported = [](const CodecSpec&, const Geometry& g) { return common_limits(g); },
        .page_bytes = [](const CodecSpec& spec,
                         const Geometry& g) { return hot::page_bytes(shape_of(spec, g)); },
        .ops =
            isa_ops<ref_encode, ref_decode, avx2_encode, avx2_decode, avx512_encode, avx512_decode>,
    };
}

}  // namespace quire::codec::i2c
