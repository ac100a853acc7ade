#include "codec/raw16/raw16.h"

#include <array>

#include "codec/families.h"
#include "codec/isa_ops.h"
#include "codec/limits.h"

namespace quire::codec::raw16 {
namespace {

constexpr uint8_t kFamily = 1;  // with nothing else in the id: format's kCodecRaw16
constexpr uint16_t kVersion = 1;
constexpr std::array kSpecs = {CodecSpec{kFamily, 0, 0, 0, kVersion}};

}  // namespace

CodecRow row() {
    return {
        .family = kFamily,
        .version = kVersion,
        .folder = "raw16",
        .pattern = "raw16",
        .summary = "16-bit numbers as they are: f16 or bf16, as the model's cache",
        .unit = Unit::token,
        .can = {.random_access = true, .fused = true, .lossless = true},
        .specs = [] { return std::span<const CodecSpec>(kSpecs); },
        .parse = [](std::string_view name) -> std::optional<CodecSpec> {
            if (name == "raw16") return kSpecs[0];
            return std::nullopt;
        },
        .name = [](const CodecSpec&) { return std::string("raw16"); },
        .unsupported = [](const CodecSpec&, const Geometry& g) { return common_limits(g); },
        .page_bytes = [](const CodecSpec&,
                         const Geometry& g) { return size_t{4} * g.head_dim * g.block_tokens; },
        .ops =
            isa_ops<ref_encode, ref_decode, avx2_encode, avx2_decode, avx512_encode, avx512_decode>,
    };
}

}  // namespace quire::codec::raw16
