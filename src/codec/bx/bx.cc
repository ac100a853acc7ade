#include "codec/bx/bx.h"

#include <array>
#include <cstring>

#include "codec/families.h"
#include "codec/isa_checks.h"
#include "codec/limits.h"
#include "codec/raw16/raw16.h"

namespace quire::codec::bx {
namespace {

constexpr uint8_t kFamily = 11;
constexpr uint16_t kVersion = 1;
constexpr std::array kSpecs = {CodecSpec{kFamily, 0, 0, 0, kVersion}};

struct alignas(64) Words {
    uint16_t words[2 * kMaxSideNumbers];
};

size_t side_of(const Geometry& g) {
    return size_t{g.head_dim} * g.block_tokens;
}

// A side that is not given is coded as zeros.
template <uint32_t (*kEncode)(const EncodePage&), Pack kPack>
uint32_t encode(const EncodePage& job) {
    Words raw;
    const size_t side = side_of(job.geometry);
    if (job.k == nullptr) std::memset(raw.words, 0, 2 * side);
    if (job.v == nullptr) std::memset(raw.words + side, 0, 2 * side);
    EncodePage words = job;
    words.page = reinterpret_cast<std::byte*>(raw.words);
    const uint32_t not_finite = kEncode(words);
    kPack(raw.words, side, job.page);
    return not_finite;
}

template <void (*kDecode)(const DecodePage&), Unpack kUnpack>
void decode(const DecodePage& job) {
    Words raw;
    kUnpack(job.page, side_of(job.geometry), raw.words);
    DecodePage words = job;
    words.page = reinterpret_cast<const std::byte*>(raw.words);
    kDecode(words);
}

std::span<const PageCodecOps> ops() {
    static constexpr std::array kTable = {
        PageCodecOps{Isa::ref, "ref", always, encode<raw16::ref_encode, ref_pack>,
                     decode<raw16::ref_decode, ref_unpack>},
#if defined(__x86_64__)
        PageCodecOps{Isa::avx2, "avx2", has_avx2, encode<raw16::avx2_encode, avx2_pack>,
                     decode<raw16::avx2_decode, avx2_unpack>},
        PageCodecOps{Isa::avx512, "avx512-vbmi2", has_avx512_vbmi2,
                     encode<raw16::avx512_encode, avx512_pack>,
                     decode<raw16::avx512_decode, avx512_unpack>},
#endif
    };
    return kTable;
}

const char* unsupported(const CodecSpec&, const Geometry& g) {
    if (const char* reason = common_limits(g)) return reason;
    if (g.element != Element::bf16) return "bx takes bf16; f16 has few exponent bits to save";
    if (side_of(g) > kMaxSideNumbers) return "a side of a page must have at most 32768 numbers";
    return nullptr;
}

}  // namespace

std::span<const Version> versions() {
    static constexpr std::array kVersions = {
        Version{"ref", Isa::ref, always, ref_pack, ref_unpack},
#if defined(__x86_64__)
        Version{"avx2", Isa::avx2, has_avx2, avx2_pack, avx2_unpack},
        Version{"avx512-vbmi2", Isa::avx512, has_avx512_vbmi2, avx512_pack, avx512_unpack},
#endif
    };
    return kVersions;
}

const Version& best_version(Isa most) {
    const Version* found = &versions().front();
    for (const Version& one : versions())
        if (one.isa <= most && one.cpu_has_it()) found = &one;
    return *found;
}

size_t stored_bytes(const std::byte* page, size_t bound) {
    uint32_t bytes;
    std::memcpy(&bytes, page, sizeof bytes);
    return bytes < bound ? bytes : bound;
}

CodecRow row() {
    return {
        .family = kFamily,
        .version = kVersion,
        .folder = "bx",
        .pattern = "bx",
        .summary = "bf16 without loss: exponents in 2.6 bits or so, for cold tiers",
        .unit = Unit::tile,
        .can = {.lossless = true},
        .specs = [] { return std::span<const CodecSpec>(kSpecs); },
        .parse = [](std::string_view name) -> std::optional<CodecSpec> {
            if (name == "bx") return kSpecs[0];
            return std::nullopt;
        },
        .name = [](const CodecSpec&) { return std::string("bx"); },
        .unsupported = unsupported,
        .page_bytes = [](const CodecSpec&, const Geometry& g) { return page_bound(side_of(g)); },
        .ops = ops,
        .stored_bytes =
            [](const CodecSpec&, const Geometry& g, const std::byte* page) {
                return stored_bytes(page, page_bound(side_of(g)));
            },
    };
}

}  // namespace quire::codec::bx
