// SlabPacking: how a tier writes slabs smaller than they are used.
//
// Lossless ones are general; a lossy one knows the model (engine/model/cold_packing.h). Immutable;
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/hash128.h"
#include "format/slab.h"

namespace quire {

// Numbers as they lie in slab headers; never used again.
enum class PackingId : uint32_t { none = 0, zstd = 1, bx = 2, ec = 3 };

// "none", "zstd", ...; "packing 77" for a number that this build does not know.
std::string packing_name(uint32_t id);

// What a slab says of its packing (PackedPayload), and must say to be unpacked.
struct PackingTag {
    PackingId id = PackingId::none;
    uint16_t version = 0;
    Hash128 transform;

    friend bool operator==(const PackingTag&, const PackingTag&) = default;
};

class SlabPacking {
 public:
    virtual ~SlabPacking() = default;

    virtual PackingTag tag() const = 0;
    // Whether unpack() is for slabs that say so: what pack() wrote, and what others write alike.
    virtual bool reads(const PackingTag& other) const { return other == tag(); }
    virtual std::string name() const = 0;  // "ec:2.7"
    virtual bool lossless() const = 0;
    // Whether the numbers of such a slab cannot be, nor come from, any that this packing changed:
    // those of a slab that it packs may, once they were unpacked, and those behind it.
    virtual bool stands_on_exact(const SlabHeader& /*header*/) const { return lossless(); }
    // Appends the payload of a sealed slab, packed, to `out`. false: this slab stays as it is.
    virtual bool pack(std::span<const std::byte> slab, std::vector<std::byte>* out) const = 0;
    // Fills the payload of a slab whose header is already as before packing, but for checksums.
    // corrupt: these bytes are nothing that pack() wrote for such a slab.
    virtual Status unpack(std::span<const std::byte> packed, std::span<std::byte> slab) const = 0;
};

}  // namespace quire
