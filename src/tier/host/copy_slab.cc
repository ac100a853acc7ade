#include "tier/host/copy_slab.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "base/hash.h"
#include "format/slab.h"

namespace quire {

Status copy_slab_verified(std::span<const std::byte> from, std::span<std::byte> to) {
    return copy_slab_layers(from, to, 0, std::numeric_limits<uint32_t>::max());
}

Status copy_slab_layers(std::span<const std::byte> from, std::span<std::byte> to, uint32_t first,
                        uint32_t end) {
    // The piece with the header checks what it wrote; the others only need sizes to go by.
    std::span<const std::byte> checked = from;
    if (first == 0) {
        std::memcpy(to.data(), from.data(), kSlabHeaderBytes);
        checked = to;
    }
    QUIRE_TRY(verify_slab_header(checked));
    const SlabHeader& header = slab_header(checked);
    end = std::min<uint32_t>(end, header.layer_count);
    size_t at = kSlabHeaderBytes + size_t{first} * header.layer_bytes;
    for (uint32_t layer = first; layer < end; ++layer, at += header.layer_bytes) {
        const std::span<std::byte> written = to.subspan(at, header.layer_bytes);
        std::memcpy(written.data(), from.data() + at, written.size());
        if (const uint32_t crc = crc32c(written); crc != header.layer_crc[layer])
            return make_error(Code::corrupt,
                              "host slab damaged in layer " + std::to_string(layer) + " at byte " +
                                  std::to_string(at),
                              static_cast<int64_t>(at));
    }
    if (end == header.layer_count) std::memset(to.data() + at, 0, to.size() - at);
    return {};
}

}  // namespace quire
