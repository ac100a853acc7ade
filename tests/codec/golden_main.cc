// quire_codec_golden FOLDER: writes the golden vectors anew, with the oracles. For codecs whose
// bytes changed on purpose, with their version; see tests/golden/codec/README.md.
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "codec/codec_table.h"
#include "codec/vectors/ec_vectors.h"
#include "codec/vectors/golden.h"
#include "codec/vectors/mla_vectors.h"

namespace quire::codec {
namespace {

constexpr uint64_t kSeed = 1;

// All members with heads of 64. Others where they differ: rows are turned in blocks of the largest
// power of two that divides head_dim. The hot family's K and V are coded apart, so there members
// with equal widths and a few others say everything.
bool is_chosen(const CodecRow& row, const CodecSpec& spec, uint32_t head_dim) {
    const std::string name = codec_name(spec);
    const bool hot = std::string_view(row.folder) == "hot";
    const bool plain =
        spec.k_bits == spec.v_bits || name == "k6v4" || name == "k4v3" || name == "k3v2";
    if (head_dim == 64) return true;
    if (head_dim == 80) return !hot || plain;
    return !row.can.lossless && (!hot || (plain && spec.k_bits % 2 == 0) || name == "k3v2");
}

bool write_file(const std::string& name, const std::vector<std::byte>& bytes) {
    std::ofstream file(name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    std::cout << name << ": " << bytes.size() << " bytes\n";
    return static_cast<bool>(file.flush());
}

bool write_family(const std::string& folder, const CodecRow& row) {
    std::vector<GoldenRecord> records;
    for (const CodecSpec& spec : row.specs()) {
        for (const uint32_t head_dim : {64u, 80u, 128u, 256u})
            for (const Element element : {Element::f16, Element::bf16}) {
                if (!is_chosen(row, spec, head_dim)) continue;
                const Geometry g{.head_dim = head_dim, .element = element};
                const bool matters = row.can.lossless || element == Element::f16;
                if (matters && row.unsupported(spec, g) == nullptr)
                    records.push_back(make_golden(spec, g, kSeed, row.ops()[0]));
            }
    }
    return write_file(folder + "/" + row.folder + ".bin", write_golden(records));
}

}  // namespace
}  // namespace quire::codec

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: quire_codec_golden FOLDER\n";
        return 2;
    }
    bool written = true;
    for (const quire::codec::CodecRow& row : quire::codec::codec_table())
        written = quire::codec::write_family(argv[1], row) && written;
    const std::string rows = std::string(argv[1]) + "/mla.rows";
    written = quire::codec::write_file(rows, quire::codec::mla_vectors()) && written;
    const std::string block = std::string(argv[1]) + "/ec.block";
    written = quire::codec::write_file(
                  block, quire::codec::ec_vectors(quire::codec::ec::all_kernels()[0])) &&
              written;
    return written ? 0 : 1;
}
