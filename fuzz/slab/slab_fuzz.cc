// One slab of any bytes: what verifies also seals to the same bytes, matches its own header's
// claims and nothing else's; what does not verify says why.
//
// The first byte: bit 0 seals the header after mutation, bit 1 seals the layers too, so that the
// code behind the checksums is reached.
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "format/slab.h"
#include "format/testing/own_claims.h"

namespace {

struct alignas(4096) Page {
    std::byte bytes[4096];
};

// As seal_slab, but for headers that no writer would pass to it.
void seal(std::span<std::byte> slab, bool layers) {
    quire::SlabHeader& header = quire::slab_header(slab);
    header.magic = quire::kSlabMagic;
    const uint64_t payload = uint64_t{header.layer_count} * header.layer_bytes;
    const bool fits = header.layer_count <= quire::kMaxGroupLayers &&
                      payload <= slab.size() - quire::kSlabHeaderBytes;
    for (size_t i = 0; layers && fits && i < header.layer_count; ++i) {
        const size_t at = quire::kSlabHeaderBytes + i * header.layer_bytes;
        header.layer_crc[i] = quire::crc32c(slab.subspan(at, header.layer_bytes));
    }
    header.header_crc = 0;
    header.header_crc = quire::crc32c(slab.first(quire::kSlabHeaderBytes));
}

void check_sound(std::span<std::byte> slab) {
    const std::vector<std::byte> before(slab.begin(), slab.end());
    const quire::SlabHeader& header = quire::slab_header(slab);
    // A packed one is nobody's until it is unpacked.
    const bool plain = header.packed == quire::PackedPayload{};
    QUIRE_CHECK(quire::match_slab(slab, quire::own_claims(header)).ok() == plain,
                "a slab is not itself");
    quire::SlabExpectation other = quire::own_claims(header);
    other.key.value.lo ^= 1;
    QUIRE_CHECK(quire::match_slab(slab, other).code() == quire::Code::miss, "matches another key");
    quire::seal_slab(slab);
    QUIRE_CHECK(std::memcmp(before.data(), slab.data(), slab.size()) == 0, "sealing changed it");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 1) return 0;
    const uint8_t mode = data[0];
    const size_t bytes = size - 1;
    std::vector<Page> pages(bytes / sizeof(Page) + 1);
    const std::span<std::byte> slab(pages.data()->bytes, bytes);
    std::memcpy(slab.data(), data + 1, bytes);
    if ((mode & 3) != 0 && bytes >= quire::kSlabHeaderBytes) seal(slab, (mode & 2) != 0);

    (void)quire::match_slab(slab, {}).ok();
    const quire::Status status = quire::verify_slab(slab);
    if (status.ok()) {
        check_sound(slab);
    } else {
        QUIRE_CHECK(!status.error().message.empty(), "a failure without a message");
    }
    return 0;
}
