#include "codec/codec_table.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/edit_distance.h"
#include "codec/families.h"

namespace quire::codec {
namespace {

constexpr size_t kSuggestions = 3;

const CodecRow* find_family(uint8_t family) {
    for (const CodecRow& row : codec_table())
        if (row.family == family) return &row;
    return nullptr;
}

std::string join(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
    return text;
}

std::string nearest_names(std::string_view wanted) {
    struct Candidate {
        size_t distance;
        size_t order;  // of the table: decides between equal distances
        std::string name;
    };
    std::vector<Candidate> all;
    for (const CodecRow& row : codec_table())
        for (const CodecSpec& spec : row.specs()) {
            std::string name = row.name(spec);
            all.push_back({edit_distance(wanted, name), all.size(), std::move(name)});
        }
    std::ranges::sort(all, {}, [](const Candidate& c) { return std::pair(c.distance, c.order); });
    std::vector<std::string> names;
    for (size_t i = 0; i < std::min(kSuggestions, all.size()); ++i) names.push_back(all[i].name);
    return join(names);
}

// One example a family, so that the message stays short.
std::string names_that_fit(const Geometry& geometry) {
    std::vector<std::string> names;
    for (const CodecRow& row : codec_table())
        for (const CodecSpec& spec : row.specs()) {
            if (row.unsupported(spec, geometry) != nullptr) continue;
            names.push_back(row.name(spec));
            break;
        }
    return names.empty() ? "none" : join(names);
}

}  // namespace

std::span<const CodecRow> codec_table() {
    static const std::array table = {raw16::row(), fp8::row(),   hot::row(),
                                     fp4::row(),   slots::row(), turbo::row(),
                                     bx::row(),    i2c::row(),   split::row()};
    return table;
}

const CodecRow& row_of(const CodecSpec& spec) {
    const CodecRow* row = find_family(spec.family);
    QUIRE_CHECK(row != nullptr, "a codec spec that the table did not make");
    return *row;
}

Result<CodecSpec> find_codec(std::string_view name) {
    for (const CodecRow& row : codec_table())
        if (const auto spec = row.parse(name)) return *spec;
    std::string patterns;
    for (const CodecRow& row : codec_table())
        patterns += (patterns.empty() ? "" : ", ") + std::string(row.pattern);
    return make_error(Code::invalid, "there is no codec '" + std::string(name) + "'; nearest: " +
                                         nearest_names(name) + "; all: " + patterns);
}

Result<CodecSpec> codec_of_id(uint32_t id, uint16_t version) {
    const std::string hex = std::to_string(id);
    const CodecRow* row = find_family(static_cast<uint8_t>(id & 0xff));
    if (row == nullptr) return make_error(Code::miss, "codec " + hex + " is unknown here");
    for (const CodecSpec& spec : row->specs()) {
        if (spec.id() != id) continue;
        if (version == row->version) return spec;
        return make_error(Code::miss, "codec " + row->name(spec) + " has version " +
                                          std::to_string(version) + ", this build reads " +
                                          std::to_string(row->version));
    }
    return make_error(Code::miss, "codec " + hex + " is no " + row->pattern + " of this build");
}

std::string codec_name(const CodecSpec& spec) {
    return row_of(spec).name(spec);
}

std::string codec_name_of_id(uint32_t id) {
    if (const CodecRow* row = find_family(static_cast<uint8_t>(id & 0xff)))
        for (const CodecSpec& spec : row->specs())
            if (spec.id() == id) return row->name(spec);
    return "codec " + std::to_string(id);
}

Status check_geometry(const CodecSpec& spec, const Geometry& geometry) {
    const char* reason = row_of(spec).unsupported(spec, geometry);
    if (reason == nullptr) return {};
    return make_error(Code::unsupported,
                      "codec " + codec_name(spec) + " does not take head_dim " +
                          std::to_string(geometry.head_dim) + ", " +
                          std::to_string(geometry.kv_heads) + " KV heads, blocks of " +
                          std::to_string(geometry.block_tokens) + " tokens: " + reason +
                          "; codecs that fit: " + names_that_fit(geometry));
}

Geometry with_fitting_element(const CodecSpec& spec, Geometry geometry) {
    for (const Element element : {geometry.element, Element::f16, Element::bf16}) {
        Geometry other = geometry;
        other.element = element;
        if (row_of(spec).unsupported(spec, other) == nullptr) return other;
    }
    return geometry;
}

size_t page_bytes(const CodecSpec& spec, const Geometry& geometry) {
    return row_of(spec).page_bytes(spec, geometry);
}

size_t stored_bytes(const CodecSpec& spec, const Geometry& geometry, const std::byte* page) {
    const CodecRow& row = row_of(spec);
    return row.stored_bytes != nullptr ? row.stored_bytes(spec, geometry, page)
                                       : row.page_bytes(spec, geometry);
}

double bits_per_element(const CodecSpec& spec, const Geometry& geometry) {
    const double numbers = 2.0 * geometry.block_tokens * geometry.head_dim;
    return 8.0 * static_cast<double>(page_bytes(spec, geometry)) / numbers;
}

const PageCodecOps& best_ops(const CodecRow& row, Isa isa) {
    const std::span<const PageCodecOps> ops = row.ops();
    for (size_t i = ops.size() - 1; i > 0; --i)
        if (ops[i].isa <= isa && ops[i].cpu_has_it()) return ops[i];
    return ops[0];
}

}  // namespace quire::codec
