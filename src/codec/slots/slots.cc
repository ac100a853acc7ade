#include "codec/slots/slots.h"

#include <array>

#include "codec/families.h"
#include "codec/isa_ops.h"
#include "codec/limits.h"

namespace quire::codec::slots {
namespace {

constexpr uint8_t kFamily = 5;
constexpr uint16_t kVersion = 2;

struct Member {
    std::string_view name;
    CodecSpec spec;
};
constexpr std::array kMembers = {
    Member{"turboquant_k8v4", {kFamily, 8, 4, 0, kVersion}},
    Member{"turboquant_4bit_nc", {kFamily, 4, 4, 0, kVersion}},
    Member{"turboquant_k3v4_nc", {kFamily, 3, 4, 0, kVersion}},
    Member{"turboquant_3bit_nc", {kFamily, 3, 3, 0, kVersion}},
    Member{"turboquant_4bit_nc_qgroup4", {kFamily, 4, 4, kOptionQgroup4, kVersion}},
    Member{"turboquant_k3v4_nc_qgroup4", {kFamily, 3, 4, kOptionQgroup4, kVersion}},
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
        if (member.spec == spec) return std::string(member.name);
    return "turboquant";
}

const char* unsupported(const CodecSpec& spec, const Geometry& g) {
    if (const char* reason = common_limits(g)) return reason;
    const bool fits =
        g.head_dim >= 32 && g.head_dim <= kMaxRotated && (g.head_dim & (g.head_dim - 1)) == 0;
    if (shape_of(spec, g).is_rotated() && !fits) return "head_dim must be 32, 64, 128 or 256";
    return nullptr;
}

}  // namespace

CodecRow row() {
    return {
        .family = kFamily,
        .version = kVersion,
        .folder = "slots",
        .pattern = "turboquant_{k8v4,4bit_nc,k3v4_nc,3bit_nc}[_qgroup4]",
        .summary = "vLLM's TurboQuant slots: keys rotated with Lloyd-Max levels, values uniform",
        .unit = Unit::token,
        .can = {.random_access = true},
        .specs = [] { return std::span<const CodecSpec>(kSpecs); },
        .parse = parse,
        .name = name_of,
        .unsupported = unsupported,
        .page_bytes =
            [](const CodecSpec& spec, const Geometry& g) {
                return size_t{g.block_tokens} * shape_of(spec, g).slot_bytes();
            },
        .ops =
            isa_ops<ref_encode, ref_decode, avx2_encode, avx2_decode, avx512_encode, avx512_decode>,
    };
}

}  // namespace quire::codec::slots
