// Sidecar: what a model's codecs were told before they ran, learned once from text.
//
// Means of keys and values, widths per layer, and whatever else a codec calibrates (transforms,
// step sizes, tables) lie in one file beside the model. Coded pages name it by its hash, so pages
// of another sidecar are misses. A plain value; nothing here changes after it was read, so any
// thread may look. src/codec/SIDECAR.md has every byte of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "codec/codec.h"
#include "core/hash128.h"
#include "core/kv_layout.h"

namespace quire::codec {

// Four letters that say what a section holds.
constexpr uint32_t sidecar_tag(const char (&letters)[5]) {
    uint32_t tag = 0;
    for (int i = 3; i >= 0; --i) tag = tag << 8 | static_cast<uint8_t>(letters[i]);
    return tag;
}

struct SidecarLayer {
    KvKind kind = KvKind::full;
    uint32_t kv_heads = 0;
    uint32_t head_dim = 0;
    uint32_t window_tokens = 0;  // of KvKind::window

    friend bool operator==(const SidecarLayer&, const SidecarLayer&) = default;
};

// Widths of the hot family for a layer, 2 to 8.
struct LayerBits {
    uint8_t k = 0;
    uint8_t v = 0;

    friend bool operator==(const LayerBits&, const LayerBits&) = default;
};

// How far the model moves (KL, nats) when one side of a layer is coded with b bits: about s 4^-b.
struct LayerSensitivity {
    float k = 0;
    float v = 0;

    friend bool operator==(const LayerSensitivity&, const LayerSensitivity&) = default;
};

// One codec's own bytes; their meaning is in its folder. Sections that this build does not know are
// kept as they are.
struct SidecarSection {
    uint32_t tag = 0;
    std::vector<std::byte> bytes;

    friend bool operator==(const SidecarSection&, const SidecarSection&) = default;
};

struct Sidecar {
    ModelId model;
    std::vector<SidecarLayer> layers;  // by model layer number
    // Vectors of head_dim floats for each KV head of each layer, in this order (vector_offset);
    // empty: not learned. All finite.
    std::vector<float> k_mean;         // after RoPE
    std::vector<float> v_mean;         //
    std::vector<float> k_mean_before;  // before RoPE
    // In how many of a head's pairs of dimensions the mean before RoPE is taken off keys, instead
    // of the one after it; none: nobody chose, kKeyPairsUnchosen. At most half a head's dimensions.
    std::optional<uint32_t> key_pairs;
    std::vector<LayerBits> bits;                // [layers]; empty: no schedule
    std::vector<LayerSensitivity> sensitivity;  // [layers]; empty: not measured
    std::vector<SidecarSection> sections;       // of other codecs, tags ascending, none twice

    friend bool operator==(const Sidecar&, const Sidecar&) = default;
};

inline constexpr uint16_t kSidecarVersion = 1;
inline constexpr uint32_t kMaxSidecarLayers = 4096;
inline constexpr uint32_t kMaxKeyPairs = 128;  // of any head that attention can read
inline constexpr uint32_t kKeyPairsUnchosen = 4;
inline constexpr uint64_t kMaxSidecarBytes = uint64_t{1} << 30;

// What a layout says of the layers that a sidecar describes.
std::vector<SidecarLayer> sidecar_layers(const KvLayout& layout);

// Where the vector of (layer, head) begins in k_mean and its like, in floats. REQUIRES: both exist.
size_t vector_offset(const Sidecar& sidecar, uint32_t layer, uint32_t head);
// Of one vector a KV head of every layer, in floats.
size_t vector_floats(const std::vector<SidecarLayer>& layers);

// The means of one KV head, as encode and decode take them: after RoPE. Borrows.
HeadSidecar head_sidecar(const Sidecar& sidecar, uint32_t layer, uint32_t head);

// The section of that tag; nullptr: none.
const SidecarSection* find_section(const Sidecar& sidecar, uint32_t tag);
// Adds it, or replaces the one with its tag.
void set_section(Sidecar* sidecar, SidecarSection section);

// invalid: counts that disagree, a number that is not finite or a sensitivity below 0, a width
// outside 2 to 8, more pairs than a head has, an unknown kind of layer, sections out of order; the
// message says which.
Status check_sidecar(const Sidecar& sidecar);

// The file's bytes and the hash by which pages name it: of every byte that is not a checksum.
// REQUIRES: check_sidecar(sidecar).ok().
struct SidecarFile {
    std::vector<std::byte> bytes;
    Hash128 hash;
};
SidecarFile sidecar_file(const Sidecar& sidecar);

struct ReadSidecar {
    Sidecar sidecar;
    Hash128 hash;
};
// Any bytes. corrupt: no sidecar, cut short or damaged; unsupported: of a newer version. A file
// that is read back is written again byte for byte.
Result<ReadSidecar> parse_sidecar(std::span<const std::byte> file);

// io and invalid as well: the file cannot be read, or is no file.
Result<ReadSidecar> read_sidecar(const std::string& path);
// In one step: afterwards the path has all of it, or what it had before. invalid: check_sidecar;
// io, full.
Result<Hash128> write_sidecar(const std::string& path, const Sidecar& sidecar);

// miss: made for another model, or for layers of another shape; the message says what differs.
Status match_sidecar(const Sidecar& sidecar, ModelId model, const KvLayout& layout);

}  // namespace quire::codec
