#include "codec/fp8/fp8.h"

#include <array>

#include "codec/families.h"
#include "codec/isa_ops.h"
#include "codec/limits.h"

namespace quire::codec::fp8 {
namespace {

constexpr uint8_t kFamily = 2;
constexpr uint16_t kVersion = 1;

constexpr CodecSpec make_spec(Scaling scaling, uint16_t format) {
    return {kFamily, 0, 0, static_cast<uint16_t>(static_cast<uint16_t>(scaling) | format),
            kVersion};
}

struct Member {
    std::string_view name;
    CodecSpec spec;
};
constexpr std::array kMembers = {
    Member{"fp8_e4m3", make_spec(Scaling::one, 0)},
    Member{"fp8_e4m3_head", make_spec(Scaling::head, 0)},
    Member{"fp8_e4m3_token", make_spec(Scaling::token, 0)},
    Member{"fp8_e5m2", make_spec(Scaling::one, kOptionE5m2)},
    Member{"fp8_e5m2_head", make_spec(Scaling::head, kOptionE5m2)},
    Member{"fp8_e5m2_token", make_spec(Scaling::token, kOptionE5m2)},
};
constexpr auto kSpecs = [] {
    std::array<CodecSpec, kMembers.size()> specs{};
    for (size_t i = 0; i < specs.size(); ++i) specs[i] = kMembers[i].spec;
    return specs;
}();

std::optional<CodecSpec> parse(std::string_view name) {
    for (const Member& member : kMembers)
        if (member.name == name) return member.spec;
    return std::nullopt;
}

std::string name_of(const CodecSpec& spec) {
    for (const Member& member : kMembers)
        if (member.spec.option == spec.option) return std::string(member.name);
    return "fp8";
}

size_t fp8_page_bytes(const CodecSpec& spec, const Geometry& g) {
    const size_t scales = scaling_of(spec) == Scaling::token ? size_t{4} * g.block_tokens : 0;
    return size_t{2} * g.head_dim * g.block_tokens + scales;
}

}  // namespace

CodecRow row() {
    return {
        .family = kFamily,
        .version = kVersion,
        .folder = "fp8",
        .pattern = "fp8_{e4m3,e5m2}[_head|_token]",
        .summary = "8-bit floats; scale one, given per head, or one per row",
        .unit = Unit::token,
        .can = {.random_access = true},
        .specs = [] { return std::span<const CodecSpec>(kSpecs); },
        .parse = parse,
        .name = name_of,
        .unsupported = [](const CodecSpec&, const Geometry& g) { return common_limits(g); },
        .page_bytes = fp8_page_bytes,
        .ops =
            isa_ops<ref_encode, ref_decode, avx2_encode, avx2_decode, avx512_encode, avx512_decode>,
    };
}

}  // namespace quire::codec::fp8
