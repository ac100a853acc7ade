#include "engine/model/kv_coding.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/hash.h"
#include "codec/codec_names.h"
#include "codec/hot/scale.h"
#include "engine/model/joined_widths.h"

namespace quire {
namespace {

constexpr char kSchedule[] = "schedule";
constexpr char kWidest[] = "k8v8";
constexpr char kFourTurned[] = "keys' four strongest pairs turned; 1";
constexpr char kExactPages[] = "exact pages, mean removed, rotated; 1";

Hash128 hash_of(std::string_view what, const Hash128& of) {
    // With the text's final zero, which keeps it apart from the hash.
    std::vector<std::byte> named(what.size() + 1 + sizeof of);
    std::memcpy(named.data(), what.data(), what.size());
    std::memcpy(named.data() + what.size() + 1, &of, sizeof of);
    const Digest128 d = sha256_128(named);
    return {d.hi, d.lo};
}

// Builds that turned four whatever the sidecar said named them so.
std::string turned_text(int32_t pairs) {
    if (pairs == codec::kKeyPairsUnchosen) return kFourTurned;
    return fmt::format("keys' {} strongest pairs turned; 1", pairs);
}

// The same butterflies as the codec's, in the same order: the same bits.
void rotate_block(float* x, uint32_t block) {
    for (uint32_t h = 1; h < block; h *= 2)
        for (uint32_t i = 0; i < block; i += 2 * h)
            for (uint32_t j = i; j < i + h; ++j) {
                const float a = x[j], b = x[j + h];
                x[j] = a + b;
                x[j + h] = a - b;
            }
    const float norm = codec::hot::hadamard_norm(block);
    for (uint32_t i = 0; i < block; ++i) x[i] *= norm;
}

}  // namespace

std::string KvCoding::name() const {
    if (scheduled) return kSchedule;
    return any() ? codec::codec_name(spec) : "raw16";
}

bool KvCoding::codes(uint32_t layer) const {
    return any() && !std::ranges::binary_search(exact_layers, layer);
}

codec::Geometry KvCoding::geometry(const KvLayout& layout) const {
    const KvGroup& group = layout.groups.front();
    return {group.head_dim, group.kv_heads, layout.block_tokens, layout.element};
}

codec::HeadSidecar KvCoding::head(uint32_t layer, uint32_t kv_head) const {
    if (!sidecar) return {};
    codec::HeadSidecar head = codec::head_sidecar(*sidecar, layer, kv_head);
    if (turns) head.k_mean = turns->k_mean.data() + codec::vector_offset(*sidecar, layer, kv_head);
    return head;
}

Hash128 KvCoding::transform() const {
    return turns ? hash_of(turned_text(turns->n_pairs), sidecar_hash) : sidecar_hash;
}

const float* KvCoding::v_means(uint32_t layer) const {
    return head(layer, 0).v_mean;
}

KvLayout KvCoding::split(const KvLayout& layout) const {
    QUIRE_CHECK(!scheduled || !layer_specs.empty(), "a schedule without the sidecar's widths");
    std::vector<CodedLayers> coded;
    for (size_t g = 0; g < layout.groups.size(); ++g) {
        std::map<uint32_t, CodedLayers> by_codec;
        for (const uint16_t layer : layout.groups[g].layers) {
            if (!codes(layer)) continue;
            const codec::CodecSpec& own = spec_of(layer);
            CodedLayers& part = by_codec[own.id()];
            part.group = g;
            part.layers.push_back(layer);
            part.pages = {.codec = own.id(),
                          .version = own.version,
                          .bytes = static_cast<uint32_t>(codec::page_bytes(own, geometry(layout))),
                          .transform = transform()};
        }
        for (auto& [id, part] : by_codec) coded.push_back(std::move(part));
    }
    KvLayout split = split_for_codes(layout, sink_tokens, coded, hash_of(kExactPages, transform()));
    split.span_tokens = recent_tokens;
    return split;
}

Result<KvCoding> find_kv_coding(const std::string& name, uint32_t sink_tokens,
                                const KvLayout& layout) {
    KvCoding coding;
    if (name.empty() || name == "raw16") return coding;
    coding.scheduled = name == kSchedule;
    QUIRE_TRY(codec::check_page_codec(name));
    const auto spec = codec::find_codec(coding.scheduled ? kWidest : name);
    if (!spec.ok()) return spec.error();
    if (sink_tokens % kCodedBlockTokens != 0 || sink_tokens > kMaxSinkTokens)
        return make_error(Code::invalid, "exact sink tokens must be a multiple of " +
                                             std::to_string(kCodedBlockTokens) + " up to " +
                                             std::to_string(kMaxSinkTokens) + ", not " +
                                             std::to_string(sink_tokens));
    coding.spec = *spec;
    coding.sink_tokens = sink_tokens;
    QUIRE_TRY(codec::check_geometry(*spec, coding.geometry(layout)));
    return coding;
}

Status set_recent(KvCoding* coding, uint32_t tokens, uint32_t most_tokens) {
    if (!coding->any()) return {};
    if (tokens == 0 || tokens % kCodedBlockTokens != 0 || tokens > kMaxSpanTokens)
        return make_error(Code::invalid, "exact recent tokens must be a multiple of " +
                                             std::to_string(kCodedBlockTokens) + " up to " +
                                             std::to_string(kMaxSpanTokens) + ", not " +
                                             std::to_string(tokens));
    if (tokens > kCodedBlockTokens && tokens > most_tokens)
        return make_error(Code::invalid, std::to_string(tokens) +
                                             " exact recent tokens are more than the context of " +
                                             std::to_string(most_tokens) +
                                             ": nothing would ever be read as codes");
    coding->recent_tokens = tokens;
    return {};
}

Status keep_exact(KvCoding* coding, std::vector<uint32_t> layers, const KvLayout& layout) {
    if (!coding->any()) return {};
    std::set<uint32_t> coded;
    for (const KvGroup& group : layout.groups)
        coded.insert(group.layers.begin(), group.layers.end());
    const size_t of_model = coded.size();
    for (const uint32_t layer : layers) {
        if (layer >= of_model)
            return make_error(
                Code::invalid,
                fmt::format("there is no layer {}; this model has {}, from 0 on", layer, of_model));
        if (coded.erase(layer) > 0) coding->exact_layers.push_back(static_cast<uint16_t>(layer));
    }
    if (coded.empty())
        return make_error(Code::invalid,
                          "no layer is left to be coded; for 16 bits everywhere take raw16");
    std::ranges::sort(coding->exact_layers);
    return {};
}

Status take_sidecar(KvCoding* coding, codec::ReadSidecar read, const KvLayout& layout) {
    coding->sidecar = std::make_shared<const codec::Sidecar>(std::move(read.sidecar));
    coding->sidecar_hash = read.hash;
    if (!coding->scheduled || !coding->layer_specs.empty()) return {};
    if (coding->sidecar->bits.empty())
        return make_error(Code::invalid,
                          "the sidecar has no widths per layer; make one with quire calibrate "
                          "MODEL --bits 4.5");
    return take_widths(coding, coding->sidecar->bits, layout);
}

Status take_widths(KvCoding* coding, const std::vector<codec::LayerBits>& bits,
                   const KvLayout& layout) {
    if (!coding->scheduled) return {};
    for (const codec::LayerBits& b : join_widths(bits, layout, coding->exact_layers)) {
        const auto spec = codec::find_codec("k" + std::to_string(b.k) + "v" + std::to_string(b.v));
        if (!spec.ok()) return spec.error();
        QUIRE_TRY(codec::check_geometry(*spec, coding->geometry(layout)));
        coding->layer_specs.push_back(*spec);
    }
    return {};
}

Status add_sidecar(KvCoding* coding, const std::string& path, const ModelId& model,
                   const KvLayout& layout) {
    auto read = codec::read_sidecar(path);
    if (!read.ok()) return read.error();
    QUIRE_TRY(codec::match_sidecar(read->sidecar, model, layout));
    return take_sidecar(coding, std::move(read).value(), layout);
}

void add_turns(KvCoding* coding, RopeStyle style, int32_t rope_dim) {
    if (!coding->sidecar || coding->sidecar->k_mean.empty() ||
        coding->sidecar->k_mean_before.empty() || coding->sidecar->key_pairs == 0u)
        return;
    coding->turns =
        std::make_shared<const KeyTurns>(find_key_turns(*coding->sidecar, style, rope_dim));
}

void to_codec_space(const float* mean, uint32_t head_dim, float* row) {
    if (mean != nullptr)
        for (uint32_t i = 0; i < head_dim; ++i) row[i] -= mean[i];
    const uint32_t block = codec::hot::hadamard_block(head_dim);
    for (uint32_t base = 0; base < head_dim; base += block) rotate_block(row + base, block);
}

}  // namespace quire
