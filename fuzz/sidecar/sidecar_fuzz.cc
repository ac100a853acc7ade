// A sidecar of any bytes: what is read is sound and is written again byte for byte; what is refused
// says why.
//
// The first byte: bit 0 makes the checksums right after mutation, so that what lies behind them is
// reached.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "codec/sidecar_format.h"

namespace {

using quire::codec::SidecarEntry;
using quire::codec::SidecarHeader;

void seal(std::vector<std::byte>* file) {
    SidecarHeader header;
    std::memcpy(&header, file->data(), sizeof header);
    header.magic = quire::codec::kSidecarMagic;
    header.file_bytes = file->size();
    header.section_count %= 80;
    const size_t head =
        std::min(file->size(), sizeof header + header.section_count * sizeof(SidecarEntry));
    for (size_t at = sizeof header; at + sizeof(SidecarEntry) <= head; at += sizeof(SidecarEntry)) {
        SidecarEntry entry;
        std::memcpy(&entry, file->data() + at, sizeof entry);
        if (entry.offset > file->size() || entry.bytes > file->size() - entry.offset) continue;
        entry.crc = quire::crc32c(std::span(*file).subspan(entry.offset, entry.bytes));
        std::memcpy(file->data() + at, &entry, sizeof entry);
    }
    header.header_crc = 0;
    header.hash = {};
    std::memcpy(file->data(), &header, sizeof header);
    const quire::Digest128 digest = quire::sha256_128(*file);
    header.hash = {digest.hi, digest.lo};
    std::memcpy(file->data(), &header, sizeof header);
    header.header_crc = quire::crc32c(std::span(*file).first(head));
    std::memcpy(file->data(), &header, sizeof header);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 1) return 0;
    std::vector<std::byte> file(size - 1);
    if (!file.empty()) std::memcpy(file.data(), data + 1, file.size());
    if ((data[0] & 1) != 0 && file.size() >= sizeof(SidecarHeader)) seal(&file);

    const auto read = quire::codec::parse_sidecar(file);
    if (!read.ok()) {
        QUIRE_CHECK(!read.error().message.empty(), "a failure without a message");
        return 0;
    }
    const quire::codec::Sidecar& sidecar = read->sidecar;
    QUIRE_CHECK(quire::codec::check_sidecar(sidecar).ok(), "what was read is not sound");
    for (const float x : sidecar.k_mean) QUIRE_CHECK(std::isfinite(x), "not finite");
    for (uint32_t l = 0; l < sidecar.layers.size(); ++l)
        (void)quire::codec::head_sidecar(sidecar, l, sidecar.layers[l].kv_heads - 1);
    const quire::codec::SidecarFile again = quire::codec::sidecar_file(sidecar);
    QUIRE_CHECK(again.bytes == file && again.hash == read->hash, "written again it is another");
    return 0;
}
