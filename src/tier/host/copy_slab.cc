#include "tier/host/copy_slab.h"

#include <cstring>
#include <string>

#include "base/hash.h"
#include "format/slab.h"

namespace quire {

Status copy_slab_verified(std::span<const std::byte> from, std::span<std::byte> to) {
    std::memcpy(to.data(), from.data(), kSlabHeaderBytes);
    QUIRE_TRY(verify_slab_header(to));
    const SlabHeader& header = slab_header(std::span<const std::byte>(to));
    size_t at = kSlabHeaderBytes;
    for (uint32_t layer = 0; layer < header.layer_count; ++layer, at += header.layer_bytes) {
        const std::span<std::byte> written = to.subspan(at, header.layer_bytes);
        std::memcpy(written.data(), from.data() + at, written.size());
        if (const uint32_t crc = crc32c(written); crc != header.layer_crc[layer])
            return make_error(Code::corrupt,
                              "host slab damaged in layer " + std::to_string(layer) + " at byte " +
                                  std::to_string(at),
                              static_cast<int64_t>(at));
    }
    std::memset(to.data() + at, 0, to.size() - at);
    return {};
}

}  // namespace quire
