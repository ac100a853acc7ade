#include "codec/fp4/fp4.h"

#include <array>

#include "codec/families.h"
#include "codec/isa_ops.h"
#include "codec/limits.h"

namespace quire::codec::fp4 {
namespace {

constexpr uint8_t kFamily = 8;
constexpr uint16_t kVersion = 1;

constexpr CodecSpec make_spec(Kind kind) {
    return {kFamily, 0, 0, static_cast<uint16_t>(kind), kVersion};
}

constexpr std::array kSpecs = {make_spec(Kind::nvfp4), make_spec(Kind::nvfp4_4over6),
                               make_spec(Kind::mxfp4)};
constexpr std::array<std::string_view, 3> kNames = {"nvfp4", "nvfp4_4over6", "mxfp4"};

std::optional<CodecSpec> parse(std::string_view name) {
    for (size_t i = 0; i < kNames.size(); ++i)
        if (kNames[i] == name) return kSpecs[i];
    return std::nullopt;
}

const char* unsupported(const CodecSpec& spec, const Geometry& g) {
    if (const char* reason = common_limits(g)) return reason;
    if (g.head_dim % block_of(kind_of(spec)) != 0) return "head_dim must be a multiple of 32";
    return nullptr;
}

}  // namespace

CodecRow row() {
    return {
        .family = kFamily,
        .version = kVersion,
        .folder = "fp4",
        .pattern = "nvfp4, nvfp4_4over6, mxfp4",
        .summary = "4-bit floats in blocks of 16 or 32 with an 8-bit float scale",
        .unit = Unit::token,
        .can = {.random_access = true},
        .specs = [] { return std::span<const CodecSpec>(kSpecs); },
        .parse = parse,
        .name = [](const CodecSpec& spec) { return std::string(kNames.at(spec.option)); },
        .unsupported = unsupported,
        .page_bytes = [](const CodecSpec& spec,
                         const Geometry& g) { return 2 * side_bytes(kind_of(spec), g); },
        .ops =
            isa_ops<ref_encode, ref_decode, avx2_encode, avx2_decode, avx512_encode, avx512_decode>,
    };
}

}  // namespace quire::codec::fp4
