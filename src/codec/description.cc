#include "codec/description.h"

#include <string>

#include "codec/codec_table.h"

namespace quire::codec {
namespace {

Error miss(const std::string& message) {
    return make_error(Code::miss, message);
}

Status match_number(const char* what, uint64_t found, uint64_t expected) {
    if (found == expected) return {};
    return miss("the page's " + std::string(what) + " is " + std::to_string(found) + ", not " +
                std::to_string(expected));
}

}  // namespace

PageDescription describe(const CodecSpec& spec, const Geometry& geometry, Hash128 sidecar) {
    return {.codec = spec.id(),
            .version = spec.version,
            .element = static_cast<uint8_t>(geometry.element),
            .head_dim = static_cast<uint16_t>(geometry.head_dim),
            .kv_heads = static_cast<uint16_t>(geometry.kv_heads),
            .block_tokens = static_cast<uint16_t>(geometry.block_tokens),
            .page_bytes = static_cast<uint32_t>(page_bytes(spec, geometry)),
            .sidecar = sidecar};
}

Geometry geometry_of(const PageDescription& found) {
    return {.head_dim = found.head_dim,
            .kv_heads = found.kv_heads,
            .block_tokens = found.block_tokens,
            .element = static_cast<Element>(found.element)};
}

Result<CodecSpec> codec_of(const PageDescription& found) {
    auto spec = codec_of_id(found.codec, found.version);
    if (!spec.ok()) return spec;
    if (found.element > static_cast<uint8_t>(Element::bf16))
        return miss("element " + std::to_string(found.element) + " is unknown here");
    if ((found.reserved0 | found.reserved1 | found.reserved2) != 0)
        return miss("a reserved field of the page's description is not zero");
    const Geometry geometry = geometry_of(found);
    if (const Status fits = check_geometry(*spec, geometry); !fits.ok())
        return miss(fits.error().message);
    QUIRE_TRY(match_number("size in bytes", found.page_bytes, page_bytes(*spec, geometry)));
    return spec;
}

Status match_description(const PageDescription& found, const PageDescription& expected) {
    if (found.codec != expected.codec || found.version != expected.version) {
        const auto name = [](const PageDescription& d) {
            const auto spec = codec_of_id(d.codec, d.version);
            return spec.ok() ? codec_name(*spec) : spec.error().message;
        };
        return miss("the page's codec is " + name(found) + ", not " + name(expected));
    }
    QUIRE_TRY(match_number("element", found.element, expected.element));
    QUIRE_TRY(match_number("head_dim", found.head_dim, expected.head_dim));
    QUIRE_TRY(match_number("number of KV heads", found.kv_heads, expected.kv_heads));
    QUIRE_TRY(match_number("number of tokens", found.block_tokens, expected.block_tokens));
    QUIRE_TRY(match_number("size in bytes", found.page_bytes, expected.page_bytes));
    QUIRE_TRY(match_number("first reserved field", found.reserved0, expected.reserved0));
    QUIRE_TRY(match_number("second reserved field", found.reserved1, expected.reserved1));
    QUIRE_TRY(match_number("third reserved field", found.reserved2, expected.reserved2));
    if (found.sidecar != expected.sidecar)
        return miss("the page was coded with sidecar " + found.sidecar.to_hex() + ", not " +
                    expected.sidecar.to_hex());
    return {};
}

}  // namespace quire::codec
