#include "codec/fp8/fp8.h"

#include <array>

#include "codec/families.h"
#include "codec/isa_checks.h"
#include "codec/limits.h"

namespace quire::codec {
namespace {

constexpr uint8_t kFamily = 2;
constexpr uint16_t kVersion = 1;

constexpr CodecSpec make_spec(fp8::Scaling scaling, uint16_t format) {
    return {kFamily, 0, 0, static_cast<uint16_t>(static_cast<uint16_t>(scaling) | format),
            kVersion};
}

struct Member {
    std::string_view name;
    CodecSpec spec;
};
constexpr std::array kMembers = {
    Member{"fp8_e4m3", make_spec(fp8::Scaling::one, 0)},
    Member{"fp8_e4m3_head", make_spec(fp8::Scaling::head, 0)},
    Member{"fp8_e4m3_token", make_spec(fp8::Scaling::token, 0)},
    Member{"fp8_e5m2", make_spec(fp8::Scaling::one, fp8::kOptionE5m2)},
    Member{"fp8_e5m2_head", make_spec(fp8::Scaling::head, fp8::kOptionE5m2)},
    Member{"fp8_e5m2_token", make_spec(fp8::Scaling::token, fp8::kOptionE5m2)},
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
    const size_t scales =
        fp8::scaling_of(spec) == fp8::Scaling::token ? size_t{4} * g.block_tokens : 0;
    return size_t{2} * g.head_dim * g.block_tokens + scales;
}

std::span<const PageCodecOps> ops() {
    static constexpr std::array kTable = {
        PageCodecOps{Isa::ref, "ref", always, fp8::ref_encode, fp8::ref_decode},
#if defined(__x86_64__)
        PageCodecOps{Isa::avx2, "avx2", has_avx2, fp8::avx2_encode, fp8::avx2_decode},
        PageCodecOps{Isa::avx512, "avx512", has_avx512, fp8::avx512_encode, fp8::avx512_decode},
#endif
    };
    return kTable;
}

}  // namespace

CodecRow fp8_row() {
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
        .ops = ops,
    };
}

}  // namespace quire::codec
