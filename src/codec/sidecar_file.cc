#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/regular_file.h"
#include "codec/sidecar_format.h"

namespace quire::codec {
namespace {

using Bytes = std::span<const std::byte>;

struct Part {
    uint32_t tag;
    Bytes bytes;
};

uint64_t padded(uint64_t bytes) {
    return (bytes + kSectionAlign - 1) / kSectionAlign * kSectionAlign;
}

std::vector<SidecarLayerRecord> records_of(const Sidecar& s) {
    std::vector<SidecarLayerRecord> records;
    for (const SidecarLayer& layer : s.layers)
        records.push_back({static_cast<uint16_t>(layer.kind), static_cast<uint16_t>(layer.kv_heads),
                           layer.head_dim, layer.window_tokens});
    return records;
}

// Sections in the order of the file.
std::vector<Part> parts_of(const Sidecar& s, const std::vector<SidecarLayerRecord>& records) {
    std::vector<Part> parts = {{kTagLayers, std::as_bytes(std::span(records))}};
    if (!s.k_mean.empty()) parts.push_back({kTagKMean, std::as_bytes(std::span(s.k_mean))});
    if (!s.v_mean.empty()) parts.push_back({kTagVMean, std::as_bytes(std::span(s.v_mean))});
    if (!s.k_mean_before.empty())
        parts.push_back({kTagKMeanBefore, std::as_bytes(std::span(s.k_mean_before))});
    if (s.key_pairs) parts.push_back({kTagKeyPairs, std::as_bytes(std::span(&*s.key_pairs, 1))});
    if (!s.bits.empty()) parts.push_back({kTagBits, std::as_bytes(std::span(s.bits))});
    if (!s.sensitivity.empty())
        parts.push_back({kTagSensitivity, std::as_bytes(std::span(s.sensitivity))});
    for (const SidecarSection& section : s.sections) parts.push_back({section.tag, section.bytes});
    std::ranges::sort(parts, {}, &Part::tag);
    return parts;
}

uint64_t bytes_of_parts(const std::vector<Part>& parts) {
    uint64_t end = sizeof(SidecarHeader) + parts.size() * sizeof(SidecarEntry);
    for (const Part& part : parts) end = padded(end) + part.bytes.size();
    return end;
}

// Of the header and table, or of everything, with the header's own checksums taken as zero.
std::vector<std::byte> without_checksums(Bytes bytes, bool keep_hash) {
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    SidecarHeader header;
    std::memcpy(&header, copy.data(), sizeof header);
    header.header_crc = 0;
    if (!keep_hash) header.hash = {};
    std::memcpy(copy.data(), &header, sizeof header);
    return copy;
}

Hash128 hash_of(Bytes file) {
    const Digest128 digest = sha256_128(without_checksums(file, false));
    return {digest.hi, digest.lo};
}

Error damaged(const std::string& why) {
    return make_error(Code::corrupt, "the sidecar " + why);
}

// What a file says of itself, in bounds and without damage.
class Reader {
 public:
    explicit Reader(Bytes file) : file_(file) {}

    Status open() {
        if (file_.size() < sizeof header_) return damaged("is cut short before its header ends");
        std::memcpy(&header_, file_.data(), sizeof header_);
        if (header_.magic != kSidecarMagic)
            return make_error(Code::corrupt, "this is no sidecar of Quire's");
        if (header_.version > kSidecarVersion)
            return make_error(Code::unsupported,
                              fmt::format("the sidecar has version {}, this build reads {}",
                                          header_.version, kSidecarVersion));
        const size_t head = sizeof header_ + header_.section_count * sizeof(SidecarEntry);
        if (header_.file_bytes != file_.size() || head > file_.size())
            return damaged(fmt::format("has {} of its {} bytes", file_.size(), header_.file_bytes));
        if (crc32c(without_checksums(file_.first(head), true)) != header_.header_crc)
            return damaged("has a damaged header");
        if (header_.version == 0 || header_.reserved != 0)
            return damaged("has a header that no version wrote");
        return read_table(head);
    }

    // Nothing: no such section.
    Bytes find(uint32_t tag) const {
        for (const Part& part : parts_)
            if (part.tag == tag) return part.bytes;
        return {};
    }
    const std::vector<Part>& parts() const { return parts_; }
    const SidecarHeader& header() const { return header_; }

 private:
    Status read_table(uint64_t end) {
        if (header_.section_count > kMaxSections + kOwnTags.size())
            return damaged("has too many sections");
        for (uint32_t i = 0; i < header_.section_count; ++i) {
            SidecarEntry entry;
            std::memcpy(&entry, file_.data() + sizeof header_ + i * sizeof entry, sizeof entry);
            const uint64_t start = padded(end);
            const std::string name = "section " + tag_text(entry.tag);
            if (i > 0 && entry.tag <= parts_.back().tag) return damaged("has " + name + " twice");
            if (entry.reserved != 0 || entry.offset != start || start > file_.size() ||
                entry.bytes > file_.size() - start)
                return damaged("has a " + name + " that does not lie where it should");
            if (!std::ranges::all_of(file_.subspan(end, start - end),
                                     [](std::byte b) { return b == std::byte{0}; }))
                return damaged("has something before its " + name);
            const Bytes bytes = file_.subspan(start, entry.bytes);
            if (crc32c(bytes) != entry.crc) return damaged("has a damaged " + name);
            parts_.push_back({entry.tag, bytes});
            end = start + entry.bytes;
        }
        if (end != file_.size()) return damaged("goes on after its last section");
        if (hash_of(file_) != header_.hash) return damaged("does not have the hash that it names");
        return {};
    }

    Bytes file_;
    SidecarHeader header_;
    std::vector<Part> parts_;
};

template <typename T>
Result<std::vector<T>> array_of(const Reader& reader, uint32_t tag) {
    const Bytes bytes = reader.find(tag);
    if (bytes.size() % sizeof(T) != 0)
        return damaged("has a section " + tag_text(tag) + " of an odd size");
    std::vector<T> out(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
}

Status read_layers(const Reader& reader, Sidecar* out) {
    auto records = array_of<SidecarLayerRecord>(reader, kTagLayers);
    if (!records.ok()) return records.error();
    for (const SidecarLayerRecord& r : *records) {
        // Kinds that this build does not know are for check_sidecar to refuse, by name.
        const uint16_t kind = std::min<uint16_t>(r.kind, 0xff);
        out->layers.push_back({static_cast<KvKind>(kind), r.kv_heads, r.head_dim, r.window_tokens});
    }
    return {};
}

Status read_key_pairs(const Reader& reader, Sidecar* out) {
    auto numbers = array_of<uint32_t>(reader, kTagKeyPairs);
    if (!numbers.ok()) return numbers.error();
    if (numbers->size() > 1)
        return damaged("has " + std::to_string(numbers->size()) + " numbers in its section PAIR");
    if (!numbers->empty()) out->key_pairs = numbers->front();
    return {};
}

template <typename T>
Status take(Result<std::vector<T>> found, std::vector<T>* out) {
    if (!found.ok()) return found.error();
    *out = std::move(found).value();
    return {};
}

}  // namespace

uint64_t sidecar_file_bytes(const Sidecar& sidecar) {
    const std::vector<SidecarLayerRecord> records = records_of(sidecar);
    return bytes_of_parts(parts_of(sidecar, records));
}

SidecarFile sidecar_file(const Sidecar& sidecar) {
    QUIRE_CHECK(check_sidecar(sidecar).ok(), "writing a sidecar that is not sound");
    const std::vector<SidecarLayerRecord> records = records_of(sidecar);
    const std::vector<Part> parts = parts_of(sidecar, records);
    SidecarFile out;
    out.bytes.resize(bytes_of_parts(parts));
    SidecarHeader header{.section_count = static_cast<uint16_t>(parts.size()),
                         .model = sidecar.model,
                         .file_bytes = out.bytes.size()};
    std::byte* entry_at = out.bytes.data() + sizeof header;
    uint64_t end = sizeof header + parts.size() * sizeof(SidecarEntry);
    const uint64_t head = end;
    for (const Part& part : parts) {
        const SidecarEntry entry{part.tag, crc32c(part.bytes), padded(end), part.bytes.size(), 0};
        std::memcpy(entry_at, &entry, sizeof entry);
        entry_at += sizeof entry;
        if (!part.bytes.empty())
            std::memcpy(out.bytes.data() + entry.offset, part.bytes.data(), part.bytes.size());
        end = entry.offset + entry.bytes;
    }
    std::memcpy(out.bytes.data(), &header, sizeof header);
    header.hash = hash_of(out.bytes);
    std::memcpy(out.bytes.data(), &header, sizeof header);
    header.header_crc = crc32c(Bytes(out.bytes).first(head));
    std::memcpy(out.bytes.data(), &header, sizeof header);
    out.hash = header.hash;
    return out;
}

Result<ReadSidecar> parse_sidecar(Bytes file) {
    Reader reader(file);
    QUIRE_TRY(reader.open());
    ReadSidecar out;
    out.hash = reader.header().hash;
    Sidecar& s = out.sidecar;
    s.model = reader.header().model;
    QUIRE_TRY(read_layers(reader, &s));
    QUIRE_TRY(take(array_of<float>(reader, kTagKMean), &s.k_mean));
    QUIRE_TRY(take(array_of<float>(reader, kTagVMean), &s.v_mean));
    QUIRE_TRY(take(array_of<float>(reader, kTagKMeanBefore), &s.k_mean_before));
    QUIRE_TRY(read_key_pairs(reader, &s));
    QUIRE_TRY(take(array_of<LayerBits>(reader, kTagBits), &s.bits));
    QUIRE_TRY(take(array_of<LayerSensitivity>(reader, kTagSensitivity), &s.sensitivity));
    for (const Part& part : reader.parts()) {
        const bool own = std::ranges::count(kOwnTags, part.tag) != 0;
        if (own && part.bytes.empty()) return damaged("has an empty section " + tag_text(part.tag));
        if (!own) s.sections.push_back({part.tag, {part.bytes.begin(), part.bytes.end()}});
    }
    if (const Status sound = check_sidecar(s); !sound.ok())
        return make_error(Code::corrupt, sound.error().message);
    return out;
}

Result<ReadSidecar> read_sidecar(const std::string& path) {
    const Result<std::string> file = read_regular_file(path, "the sidecar", kMaxSidecarBytes);
    if (!file.ok()) return file.error();
    auto parsed = parse_sidecar(std::as_bytes(std::span(*file)));
    if (parsed.ok()) return parsed;
    return make_error(parsed.code(), path + ": " + parsed.error().message);
}

Result<Hash128> write_sidecar(const std::string& path, const Sidecar& sidecar) {
    QUIRE_TRY(check_sidecar(sidecar));
    const SidecarFile file = sidecar_file(sidecar);
    QUIRE_TRY(write_file_atomically(path, "the sidecar", file.bytes));
    return file.hash;
}

}  // namespace quire::codec
