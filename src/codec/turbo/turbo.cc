#include "codec/turbo/turbo.h"

#include <array>

#include "codec/families.h"
#include "codec/isa_checks.h"
#include "codec/limits.h"
#include "codec/turbo/table.h"

namespace quire::codec::turbo {
namespace {

constexpr uint8_t kFamily = 12;
constexpr uint16_t kVersion = 1;
constexpr uint8_t kMinBits = 2;
constexpr uint8_t kMaxBits = 4;

constexpr auto kSpecs = [] {
    std::array<CodecSpec, size_t{4} * (kMaxBits - kMinBits + 1)> specs{};
    size_t n = 0;
    for (uint16_t option = 0; option < 4; ++option)
        for (uint8_t bits = kMaxBits; bits >= kMinBits; --bits)
            specs[n++] = {kFamily, bits, bits, option, kVersion};
    return specs;
}();

std::string name_of(const CodecSpec& spec) {
    return "tq" + std::to_string(spec.k_bits) +
           ((spec.option & kOptionProduct) != 0 ? "_prod" : "_mse") +
           ((spec.option & kOptionHadamard) != 0 ? "_hadamard" : "");
}

std::optional<CodecSpec> parse(std::string_view name) {
    for (const CodecSpec& spec : kSpecs)
        if (name_of(spec) == name) return spec;
    return std::nullopt;
}

const char* unsupported(const CodecSpec&, const Geometry& g) {
    if (const char* reason = common_limits(g)) return reason;
    if (levels_of(1, g.head_dim) == nullptr)
        return "head_dim must be 64, 80, 96, 112, 128, 192 or 256";
    return nullptr;
}

}  // namespace

CodecRow row() {
    return {
        .family = kFamily,
        .version = kVersion,
        .folder = "turbo",
        .pattern = "tq{2..4}_{mse,prod}[_hadamard]",
        .summary = "TurboQuant as its paper has it: random rotation, Lloyd-Max; prod: a sign more",
        .unit = Unit::token,
        .can = {.random_access = true},
        .specs = [] { return std::span<const CodecSpec>(kSpecs); },
        .parse = parse,
        .name = name_of,
        .unsupported = unsupported,
        .page_bytes =
            [](const CodecSpec& spec, const Geometry& g) {
                return size_t{g.block_tokens} *
                       (k_side(spec, g).row_bytes() + v_side(spec, g).row_bytes());
            },
        .ops =
            [] {
                static constexpr std::array kTable = {
                    PageCodecOps{Isa::ref, "ref", always, ref_encode, ref_decode}};
                return std::span<const PageCodecOps>(kTable);
            },
    };
}

}  // namespace quire::codec::turbo
