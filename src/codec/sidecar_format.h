// How a sidecar lies in its file; src/codec/SIDECAR.md says it in words.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "codec/sidecar.h"

namespace quire::codec {

inline constexpr uint64_t kSidecarMagic = 0x5241434544495351;  // "QSIDECAR"
inline constexpr uint32_t kTagLayers = sidecar_tag("LAYR");
inline constexpr uint32_t kTagKMean = sidecar_tag("KAFT");
inline constexpr uint32_t kTagVMean = sidecar_tag("VMEA");
inline constexpr uint32_t kTagKMeanBefore = sidecar_tag("KBEF");
inline constexpr uint32_t kTagBits = sidecar_tag("BITS");
inline constexpr uint32_t kTagSensitivity = sidecar_tag("SENS");
inline constexpr uint32_t kTagKeyPairs = sidecar_tag("PAIR");
inline constexpr std::array kOwnTags = {kTagLayers, kTagKMean,       kTagVMean,   kTagKMeanBefore,
                                        kTagBits,   kTagSensitivity, kTagKeyPairs};
inline constexpr uint32_t kMaxSections = 64;  // of Sidecar::sections
inline constexpr size_t kSectionAlign = 64;

// All little-endian.
struct SidecarHeader {
    uint64_t magic = kSidecarMagic;
    uint16_t version = kSidecarVersion;
    uint16_t section_count = 0;
    uint32_t header_crc = 0;  // CRC32C of the header and the table of sections, with this zero
    ModelId model;
    Hash128 hash;  // SHA-256, first half, of the file with both checksums of this header zero
    uint64_t file_bytes = 0;
    uint64_t reserved = 0;
};
static_assert(sizeof(SidecarHeader) == 64);

// The table follows the header; tags ascend. A section begins at the next multiple of 64 after the
// one before it ends; what lies between is zero.
struct SidecarEntry {
    uint32_t tag = 0;
    uint32_t crc = 0;  // CRC32C of its bytes
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t reserved = 0;
};
static_assert(sizeof(SidecarEntry) == 32);

struct SidecarLayerRecord {
    uint16_t kind = 0;
    uint16_t kv_heads = 0;
    uint32_t head_dim = 0;
    uint32_t window_tokens = 0;
};
static_assert(sizeof(SidecarLayerRecord) == 12);

uint64_t sidecar_file_bytes(const Sidecar& sidecar);
// The four letters, for messages.
std::string tag_text(uint32_t tag);

}  // namespace quire::codec
