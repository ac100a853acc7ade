#include "codec/split/split.h"

#include <array>

#include "codec/families.h"
#include "codec/isa_ops.h"
#include "codec/limits.h"

namespace quire::codec::split {
namespace {

constexpr uint8_t kFamily = 13;
constexpr uint16_t kVersion = 1;
constexpr std::array kSpecs = {CodecSpec{kFamily, kFewBits, kFewBits, 0, kVersion}};
constexpr std::string_view kName = "tq2.5";

const char* unsupported(const CodecSpec&, const Geometry& g) {
    if (const char* reason = common_limits(g)) return reason;
    return g.head_dim < 32 ? "head_dim must be 32 at least" : nullptr;
}

}  // namespace

CodecRow row() {
    return {
        .family = kFamily,
        .version = kVersion,
        .folder = "split",
        .pattern = "tq2.5",
        .summary = "turned likewise; components that vary most as k3v3, the others as k2v2",
        .unit = Unit::token,
        .can = {.random_access = true},
        .specs = [] { return std::span<const CodecSpec>(kSpecs); },
        .parse = [](std::string_view name) -> std::optional<CodecSpec> {
            if (name != kName) return std::nullopt;
            return kSpecs[0];
        },
        .name = [](const CodecSpec&) { return std::string(kName); },
        .unsupported = unsupported,
        .page_bytes =
            [](const CodecSpec&, const Geometry& g) {
                return few_part(g).offset + hot::page_bytes(few_part(g).shape);
            },
        .ops =
            isa_ops<ref_encode, ref_decode, avx2_encode, avx2_decode, avx512_encode, avx512_decode>,
    };
}

}  // namespace quire::codec::split
