// Golden vectors as a file.
#include <cstring>

#include "base/hash.h"
#include "codec/vectors/golden.h"

namespace quire::codec {
namespace {

constexpr uint32_t kMagic = 0x56474351;  // "QCGV"
constexpr uint32_t kFileVersion = 1;
constexpr size_t kRecordsMax = 4096;
constexpr size_t kPageBytesMax = 1 << 20;

struct FileHeader {
    uint32_t magic = kMagic;
    uint32_t version = kFileVersion;
    uint32_t records = 0;
    uint32_t crc = 0;  // CRC32C of what follows
};
static_assert(sizeof(FileHeader) == 16);

struct RecordHeader {
    PageDescription description;
    uint64_t seed = 0;
    uint32_t coded_crc = 0;
    uint32_t original_crc = 0;
};
static_assert(sizeof(RecordHeader) == 56);

// Moves the front of `rest` into a value. False when there is not enough.
template <typename T>
bool take(std::span<const std::byte>& rest, T& value) {
    if (rest.size() < sizeof(T)) return false;
    std::memcpy(&value, rest.data(), sizeof(T));
    rest = rest.subspan(sizeof(T));
    return true;
}

void append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
    const size_t before = out.size();
    out.resize(before + bytes.size());
    if (!bytes.empty()) std::memcpy(out.data() + before, bytes.data(), bytes.size());
}

Error bad_file(const std::string& message) {
    return make_error(Code::corrupt, message);
}

}  // namespace

std::vector<std::byte> write_golden(std::span<const GoldenRecord> records) {
    std::vector<std::byte> body;
    for (const GoldenRecord& record : records) {
        const RecordHeader header{record.description, record.seed, record.coded_crc,
                                  record.original_crc};
        append(body, std::as_bytes(std::span(&header, 1)));
        append(body, record.page);
    }
    const FileHeader header{.records = static_cast<uint32_t>(records.size()), .crc = crc32c(body)};
    std::vector<std::byte> file;
    append(file, std::as_bytes(std::span(&header, 1)));
    append(file, body);
    return file;
}

Result<std::vector<GoldenRecord>> read_golden(std::span<const std::byte> file) {
    FileHeader header;
    if (!take(file, header) || header.magic != kMagic)
        return bad_file("this is no file of golden vectors");
    if (header.version != kFileVersion)
        return bad_file("golden vectors of format version " + std::to_string(header.version) +
                        "; this build reads " + std::to_string(kFileVersion));
    if (header.crc != crc32c(file)) return bad_file("the checksum of the golden vectors is wrong");
    if (header.records > kRecordsMax)
        return bad_file(std::to_string(header.records) + " golden vectors in one file");
    std::vector<GoldenRecord> records;
    for (uint32_t i = 0; i < header.records; ++i) {
        RecordHeader one;
        if (!take(file, one) || one.description.page_bytes > kPageBytesMax ||
            file.size() < one.description.page_bytes)
            return bad_file("golden vector " + std::to_string(i) + " is cut");
        records.push_back({one.description, one.seed, one.coded_crc, one.original_crc, {}});
        append(records.back().page, file.first(one.description.page_bytes));
        file = file.subspan(one.description.page_bytes);
    }
    if (!file.empty()) return bad_file("bytes after the last golden vector");
    return records;
}

}  // namespace quire::codec
