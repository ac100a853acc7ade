#include "codec/vectors/golden.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "base/hash.h"
#include "codec/codec_table.h"

namespace quire::codec {
namespace {

// Room for a page at the alignment that codecs ask for.
class AlignedPage {
 public:
    explicit AlignedPage(size_t bytes) : bytes_(bytes), storage_(bytes + kPageAlign) {
        const auto address = reinterpret_cast<uintptr_t>(storage_.data());
        first_ = (kPageAlign - address % kPageAlign) % kPageAlign;
    }
    std::byte* data() { return storage_.data() + first_; }
    std::span<std::byte> bytes() { return {data(), bytes_}; }

 private:
    size_t bytes_;
    size_t first_;
    std::vector<std::byte> storage_;
};

HeadSidecar sidecar_of(const GoldenInput& in) {
    return {.k_mean = in.k_mean.data(),
            .v_mean = in.v_mean.data(),
            .k_scale = kGoldenKScale,
            .v_scale = kGoldenVScale,
            .k_map = {in.k_forward.data(), in.k_back.data(), in.k_order.data()},
            .v_map = {in.v_forward.data(), in.v_back.data(), in.v_order.data()}};
}

uint32_t crc_of_decoded(const GoldenRecord& record, const CodecSpec& spec, const PageCodecOps& ops,
                        const GoldenInput& in, bool original_space) {
    const Geometry g = geometry_of(record.description);
    AlignedPage page(record.page.size());
    std::memcpy(page.data(), record.page.data(), record.page.size());
    std::vector<float> out(2 * in.k.size());
    ops.decode({.spec = spec,
                .geometry = g,
                .sidecar = sidecar_of(in),
                .page = page.data(),
                .original_space = original_space,
                .k = out.data(),
                .v = out.data() + in.k.size(),
                .k_stride = g.head_dim,
                .v_stride = g.head_dim,
                .first = kGoldenFirst,
                .last = kGoldenLast});
    for (float& x : out)
        if (std::isnan(x)) x = std::bit_cast<float>(0x7fc00000u);
    return crc32c(std::as_bytes(std::span(out)));
}

Error corrupt(const std::string& message) {
    return make_error(Code::corrupt, message);
}

}  // namespace

GoldenRecord make_golden(const CodecSpec& spec, const Geometry& g, uint64_t seed,
                         const PageCodecOps& ops) {
    GoldenRecord record{.description = describe(spec, g), .seed = seed};
    const GoldenInput in = golden_input(g.head_dim, g.block_tokens, seed);
    AlignedPage page(page_bytes(spec, g));
    const bool tokens = row_of(spec).unit == Unit::token;
    ops.encode({.spec = spec,
                .geometry = g,
                .sidecar = sidecar_of(in),
                .k = in.k.data(),
                .v = in.v.data(),
                .k_stride = g.head_dim,
                .v_stride = g.head_dim,
                .first = kGoldenFirst,
                .last = tokens ? kGoldenLast : g.block_tokens,
                .page = page.data()});
    record.page.assign(page.bytes().begin(), page.bytes().end());
    record.coded_crc = crc_of_decoded(record, spec, ops, in, false);
    record.original_crc = crc_of_decoded(record, spec, ops, in, true);
    return record;
}

Status check_golden(const GoldenRecord& record, const PageCodecOps& ops) {
    const auto spec = codec_of(record.description);
    if (!spec.ok()) return spec.error();
    const Geometry g = geometry_of(record.description);
    if (g.block_tokens < kGoldenLast) return corrupt("a golden vector with too few tokens");
    const GoldenRecord ours = make_golden(*spec, g, record.seed, ops);
    const std::string what =
        codec_name(*spec) + ", head_dim " + std::to_string(g.head_dim) + ", " + ops.name + ": ";
    for (size_t i = 0; i < ours.page.size(); ++i)
        if (ours.page[i] != record.page.at(i))
            return corrupt(what + "byte " + std::to_string(i) + " of the page is " +
                           std::to_string(static_cast<int>(ours.page[i])) + ", not " +
                           std::to_string(static_cast<int>(record.page[i])));
    if (ours.coded_crc != record.coded_crc)
        return corrupt(what + "decoding in the codec's space gives other numbers");
    if (ours.original_crc != record.original_crc)
        return corrupt(what + "decoding in the original space gives other numbers");
    return {};
}

}  // namespace quire::codec
