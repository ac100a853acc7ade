#include "tier/packed/packed_slab.h"

#include <cstdlib>
#include <cstring>

#include "base/hash.h"
#include "tier/packed/pack_worth.h"

namespace quire {
namespace {

std::span<const std::byte> payload_of(std::span<const std::byte> slab) {
    return slab.subspan(kSlabHeaderBytes, slab_header(slab).payload_bytes);
}

// What the header says of a slab that `packing` packed.
PackedPayload describe(const SlabPacking& packing, std::span<const std::byte> slab) {
    const SlabHeader& header = slab_header(slab);
    const PackingTag tag = packing.tag();
    return {.packing = static_cast<uint32_t>(tag.id),
            .version = tag.version,
            .layer_count = header.layer_count,
            .layer_bytes = header.layer_bytes,
            .payload_crc = packing.lossless() ? crc32c(payload_of(slab)) : 0,
            .transform = tag.transform};
}

PackingTag tag_of(const PackedPayload& packed) {
    return {static_cast<PackingId>(packed.packing), packed.version, packed.transform};
}

Status check_packing(const SlabPacking& packing, const PackedPayload& packed) {
    if (packing.reads(tag_of(packed))) return {};
    return make_error(Code::unsupported,
                      "the slab was packed in another way (" + packing_name(packed.packing) +
                          " version " + std::to_string(packed.version) + " of " +
                          packed.transform.to_hex() + ") than " + packing.name());
}

// The header as it was before; its checksums are still those of the packed slab.
void restore_header(SlabHeader* header) {
    header->layer_count = header->packed.layer_count;
    header->layer_bytes = header->packed.layer_bytes;
    header->payload_bytes = uint32_t{header->layer_count} * header->layer_bytes;
    header->layer_crc = {};
    header->packed = {};
}

}  // namespace

std::string packing_name(uint32_t id) {
    switch (static_cast<PackingId>(id)) {
        case PackingId::none:
            return "none";
        case PackingId::zstd:
            return "zstd";
        case PackingId::bx:
            return "bx";
        case PackingId::ec:
            return "ec";
    }
    return "packing " + std::to_string(id);
}

SlabBuffer::SlabBuffer(size_t bytes)
    : data_(static_cast<std::byte*>(std::aligned_alloc(kSlabAlign, bytes))),
      bytes_(data_ ? bytes : 0) {}

void SlabBuffer::Free::operator()(std::byte* data) const {
    std::free(data);
}

SlabBuffer pack_slab(const SlabPacking& packing, std::span<const std::byte> slab,
                     std::vector<std::byte>* scratch) {
    scratch->clear();
    if (!packing.pack(slab, scratch) || scratch->empty()) return {};
    const size_t bytes = slab_bytes_for(scratch->size());
    if (bytes >= slab.size()) return {};
    if (packing.lossless() && !is_worth_packing(slab.size(), bytes)) return {};
    SlabBuffer out(bytes);
    if (!out) return {};
    std::memcpy(out.bytes().data(), slab.data(), kSlabHeaderBytes);
    std::memcpy(out.bytes().data() + kSlabHeaderBytes, scratch->data(), scratch->size());
    SlabHeader& header = slab_header(out.bytes());
    header.packed = describe(packing, slab);
    header.layer_count = 1;
    header.layer_bytes = header.payload_bytes = static_cast<uint32_t>(scratch->size());
    header.layer_crc = {};
    seal_slab(out.bytes());
    if (!packing.lossless()) return out;
    // Whoever says that nothing is lost shows it, once for each slab.
    SlabBuffer back(slab.size());
    if (!back) return {};
    std::memcpy(back.bytes().data(), out.bytes().data(), bytes);
    if (!unpack_slab(packing, back.bytes(), scratch).ok()) return {};
    return out;
}

namespace {

bool is_mark(const PackedPayload& packed) {
    return packed != PackedPayload{} && packed.layer_count == 0 && packed.layer_bytes == 0 &&
           packed.payload_crc == 0;
}

}  // namespace

size_t unpacked_bytes(std::span<const std::byte> slab) {
    const SlabHeader& header = slab_header(slab);
    const PackedPayload& packed = header.packed;
    const bool as_it_is = packed == PackedPayload{} || is_mark(packed);
    return slab_bytes_for(as_it_is ? header.payload_bytes
                                   : size_t{packed.layer_count} * packed.layer_bytes);
}

SlabBuffer mark_slab(const SlabPacking& packing, std::span<const std::byte> slab) {
    SlabBuffer out(slab.size());
    if (!out) return out;
    std::memcpy(out.bytes().data(), slab.data(), slab.size());
    const PackingTag tag = packing.tag();
    slab_header(out.bytes()).packed = {.packing = static_cast<uint32_t>(tag.id),
                                       .version = tag.version,
                                       .transform = tag.transform};
    seal_slab(out.bytes());
    return out;
}

bool packed_by(const SlabPacking& packing, std::span<const std::byte> slab) {
    const PackedPayload& packed = slab_header(slab).packed;
    return packed != PackedPayload{} && tag_of(packed) == packing.tag();
}

Status unpack_slab(const SlabPacking& packing, std::span<std::byte> into,
                   std::vector<std::byte>* scratch) {
    const PackedPayload packed = slab_header(into).packed;
    const size_t bytes_needed = unpacked_bytes(into);
    if (packed != PackedPayload{}) QUIRE_TRY(check_packing(packing, packed));
    if (bytes_needed != into.size())
        return make_error(Code::invalid, "a slab of " + std::to_string(bytes_needed) +
                                             " bytes where one of " + std::to_string(into.size()) +
                                             " was expected");
    if (packed == PackedPayload{}) return {};
    if (is_mark(packed)) {
        slab_header(into).packed = {};
        seal_slab(into);
        return {};
    }
    if (packed.layer_count == 0 || packed.layer_count > kMaxGroupLayers || packed.layer_bytes == 0)
        return make_error(Code::corrupt, "a packed slab of no layers, or of too many");
    const std::span<const std::byte> bytes = payload_of(into);
    scratch->assign(bytes.begin(), bytes.end());
    restore_header(&slab_header(into));
    QUIRE_TRY(packing.unpack(*scratch, into));
    if (packing.lossless() && crc32c(payload_of(into)) != packed.payload_crc)
        return make_error(Code::corrupt, "a slab is not what it was before it was packed");
    seal_slab(into);
    return {};
}

}  // namespace quire
