// KvCoding: how a model's pages are compressed while it runs.
//
// With a codec of the hot family (codec/hot/README.md) K and V of a new token are written twice:
// rounded to 16 bit into the exact page of its block, in the codec's space (mean removed, rotated),
// and as codes. Attention reads exact pages for a query's own span and the sinks, and codes
// between (kernels/attention.h, AttnCodes); an exact page that is neither any more is given back. A
// span is one block, or several, so that each is either exact or coded for a query. Values only.
#pragma once

#include <memory>
#include <string>

#include "codec/codec_table.h"
#include "codec/sidecar.h"
#include "core/kv_layout.h"
#include "engine/model/key_turns.h"

namespace quire {

inline constexpr uint32_t kCodedBlockTokens = 64;
inline constexpr uint32_t kSinkTokens = 64;

struct KvCoding {
    codec::CodecSpec spec;                      // of all layers; its family, where widths differ
    bool scheduled = false;                     // widths per layer
    std::vector<codec::CodecSpec> layer_specs;  // [layers], when scheduled and they were taken
    std::vector<uint16_t> exact_layers;         // ascending: they stay 16 bit
    uint32_t sink_tokens = kSinkTokens;
    uint32_t recent_tokens = kCodedBlockTokens;     // of a span
    std::shared_ptr<const codec::Sidecar> sidecar;  // null: no means
    Hash128 sidecar_hash;
    std::shared_ptr<const KeyTurns> turns;  // null: only constant means are taken off

    bool any() const { return spec.family != 0; }
    bool codes(uint32_t layer) const;
    // "k6v4"; "schedule"; "raw16" when there is none.
    std::string name() const;
    const codec::CodecSpec& spec_of(uint32_t layer) const {
        return layer_specs.empty() ? spec : layer_specs[layer];
    }
    // REQUIRES: any().
    codec::Geometry geometry(const KvLayout& layout) const;
    codec::HeadSidecar head(uint32_t layer, uint32_t kv_head) const;
    // [kv_heads][head_dim]; null: zero.
    const float* v_means(uint32_t layer) const;
    // What is done to numbers before they are coded; zero: nothing that pages depend on.
    Hash128 transform() const;
    // The plain layout with codes, a group of them for each pair of widths, and exact layers in
    // groups of their own. REQUIRES: any(), and it has kCodedBlockTokens.
    KvLayout split(const KvLayout& layout) const;
};

// The coding of that name for a model with that plain layout. "" and "raw16": none; "schedule":
// widths per layer, to be taken later. invalid: no such codec, or sink_tokens is no
// multiple of kCodedBlockTokens; unsupported: a codec that attention does not read, or that does
// not fit the model's shape. The message names those that would do.
Result<KvCoding> find_kv_coding(const std::string& name, uint32_t sink_tokens,
                                const KvLayout& layout);

// Leaves these layers 16 bit. Before a sidecar is taken. No effect without a codec.
// invalid: a layer that the model does not have, or all of them.
Status keep_exact(KvCoding* coding, std::vector<uint32_t> layers, const KvLayout& layout);

// Makes spans of so many tokens. No effect without a codec. invalid: they are no multiple of
// kCodedBlockTokens, none, or more than `most_tokens`, the longest sequence, or kMaxSpanTokens.
Status set_recent(KvCoding* coding, uint32_t tokens, uint32_t most_tokens);

// Takes a schedule's widths, of all layers of the model; no effect without one. After keep_exact(),
// before a sidecar is taken. Layers of a group may have so many pairs of widths as there are groups
// left; those nearest to each other are joined, at the larger widths.
Status take_widths(KvCoding* coding, const std::vector<codec::LayerBits>& bits,
                   const KvLayout& layout);
// Takes means, and a schedule's widths if it has none yet, from a sidecar.
// invalid: a schedule was asked for and the sidecar has none.
Status take_sidecar(KvCoding* coding, codec::ReadSidecar read, const KvLayout& layout);
// The same from a file, which must be of that model. As read_sidecar() and match_sidecar() too.
Status add_sidecar(KvCoding* coding, const std::string& path, const ModelId& model,
                   const KvLayout& layout);

// Takes keys' strongest pairs off turned, as many as the sidecar says, where it has both means of
// keys.
void add_turns(KvCoding* coding, RopeStyle style, int32_t rope_dim);

// A row of a KV head to the codec's space, in place: less its mean (null: zero), rotated.
void to_codec_space(const float* mean, uint32_t head_dim, float* row);

}  // namespace quire
