// Our codecs against bytes that vLLM's and FlashMLA's own code wrote, and against what it reads.
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "codec/codec_table.h"
#include "codec/mla/rows.h"
#include "codec/testing/pages.h"
#include "interop_vectors.h"

namespace quire::codec {
namespace {

// The bytes of a file, taken from the front.
class File {
 public:
    explicit File(const char* name) {
        std::ifstream file(std::filesystem::path(QUIRE_INTEROP_FOLDER) / name, std::ios::binary);
        const std::string text(std::istreambuf_iterator<char>(file), {});
        const auto bytes = std::as_bytes(std::span(text));
        bytes_.assign(bytes.begin(), bytes.end());
        EXPECT_FALSE(bytes_.empty()) << name;
    }

    std::vector<std::byte> take(size_t count) {
        std::vector<std::byte> out(count);
        if (count <= bytes_.size() - at_)
            std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(at_), count, out.begin());
        else
            ADD_FAILURE() << "the file ends before " << at_ + count;
        at_ = std::min(at_ + count, bytes_.size());
        return out;
    }
    uint32_t take_crc() {
        uint32_t crc;
        std::memcpy(&crc, take(sizeof(crc)).data(), sizeof(crc));
        return crc;
    }
    bool at_end() const { return at_ == bytes_.size(); }

 private:
    std::vector<std::byte> bytes_;
    size_t at_ = 0;
};

uint32_t crc_of(Element element, std::span<const float> numbers) {
    std::vector<uint16_t> words;
    for (const float x : numbers)
        words.push_back(element == Element::f16 ? f32_to_f16(x) : f32_to_bf16(x));
    return crc32c(std::as_bytes(std::span(words)));
}

// One preset and head_dim: what the file holds of it.
struct Slots {
    CodecSpec spec;
    uint32_t dim;
    std::vector<std::byte> bytes;  // [kInteropRows][slot]
    uint32_t k_crc, v_crc;

    size_t slot_bytes() const { return bytes.size() / kInteropRows; }
};

std::vector<Slots> all_slots() {
    File file("vllm.slots");
    std::vector<Slots> all;
    for (const char* name :
         {"turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc"})
        for (const uint32_t dim : {32u, 64u, 128u, 256u}) {
            const CodecSpec spec = *find_codec(name);
            const size_t slot = page_bytes(spec, {.head_dim = dim}) / kGroupTokens;
            Slots slots{spec, dim, file.take(kInteropRows * slot), 0, 0};
            slots.k_crc = file.take_crc();
            slots.v_crc = file.take_crc();
            all.push_back(std::move(slots));
        }
    EXPECT_TRUE(file.at_end());
    return all;
}

void expect_same_slots(const PageCodecOps& ops, const Slots& theirs) {
    InteropRows rows = slot_rows(theirs.dim);
    const uint32_t heads = interop_heads(theirs.dim);
    const Geometry g{.head_dim = theirs.dim, .kv_heads = heads};
    for (uint32_t head = 0; head < heads; ++head) {
        testing::Page page(theirs.spec, g, 0);
        const size_t stride = size_t{heads} * theirs.dim;
        ops.encode({.spec = theirs.spec,
                    .geometry = g,
                    .k = rows.k_row(head).data(),
                    .v = rows.v_row(head).data(),
                    .k_stride = stride,
                    .v_stride = stride,
                    .last = kInteropRows / heads,
                    .page = page.data()});
        for (uint32_t row = head; row < kInteropRows; row += heads)
            for (size_t i = 0; i < theirs.slot_bytes(); ++i)
                ASSERT_EQ(page.data()[row / heads * theirs.slot_bytes() + i],
                          theirs.bytes[row * theirs.slot_bytes() + i])
                    << codec_name(theirs.spec) << " " << ops.name << ", head_dim " << theirs.dim
                    << ", row " << row << ", byte " << i;
    }
}

void expect_same_numbers(const PageCodecOps& ops, const Slots& theirs) {
    // All rows as tokens of one head: a slot does not know whose it is.
    const Geometry g{.head_dim = theirs.dim};
    testing::Page page(theirs.spec, g, 0);
    std::ranges::copy(theirs.bytes, page.data());
    std::vector<float> k(size_t{kInteropRows} * theirs.dim), v(k);
    ops.decode({.spec = theirs.spec,
                .geometry = g,
                .page = page.data(),
                .original_space = false,
                .k = k.data(),
                .v = v.data(),
                .k_stride = theirs.dim,
                .v_stride = theirs.dim,
                .last = kInteropRows});
    EXPECT_EQ(crc_of(Element::f16, k), theirs.k_crc) << codec_name(theirs.spec) << theirs.dim;
    EXPECT_EQ(crc_of(Element::f16, v), theirs.v_crc) << codec_name(theirs.spec) << theirs.dim;
}

TEST(Interop, SlotsAreThoseOfVllm) {
    for (const Slots& theirs : all_slots())
        for (const PageCodecOps& ops : row_of(theirs.spec).ops())
            if (ops.cpu_has_it()) expect_same_slots(ops, theirs);
}

TEST(Interop, SlotsOfVllmAreReadAsItReadsThem) {
    for (const Slots& theirs : all_slots())
        for (const PageCodecOps& ops : row_of(theirs.spec).ops())
            if (ops.cpu_has_it()) expect_same_numbers(ops, theirs);
}

std::vector<std::byte> v32_rows() {
    InteropRows rows = mla_rows(mla::kV32Numbers);
    std::vector<std::byte> all;
    for (uint32_t t = 0; t < kInteropRows; ++t) {
        std::array<std::byte, mla::kV32Bytes> out;
        mla::encode_v32(rows.k_row(t).first<mla::kV32Numbers>(), mla::TileScale::power_of_two, out);
        all.insert(all.end(), out.begin(), out.end());
    }
    return all;
}

std::vector<float> decoded_v32(std::span<const std::byte> bytes) {
    InteropRows rows{mla::kV32Numbers, std::vector<float>(kInteropRows * mla::kV32Numbers), {}};
    for (uint32_t t = 0; t < kInteropRows; ++t)
        mla::decode_v32(bytes.subspan(size_t{t} * mla::kV32Bytes).first<mla::kV32Bytes>(),
                        rows.k_row(t).first<mla::kV32Numbers>());
    return rows.k;
}

std::vector<std::byte> v4_block() {
    InteropRows rows = mla_rows(mla::kV4Numbers);
    std::vector<std::byte> block(mla::v4_block_bytes(kInteropRows));
    for (uint32_t t = 0; t < kInteropRows; ++t)
        mla::encode_v4(rows.k_row(t).first<mla::kV4Numbers>(), kInteropRows, t, block);
    block.resize(kInteropRows * mla::kV4Bytes);
    return block;
}

std::vector<float> decoded_v4(std::vector<std::byte> block) {
    block.resize(mla::v4_block_bytes(kInteropRows));
    InteropRows rows{mla::kV4Numbers, std::vector<float>(kInteropRows * mla::kV4Numbers), {}};
    for (uint32_t t = 0; t < kInteropRows; ++t)
        mla::decode_v4(block, kInteropRows, t, rows.k_row(t).first<mla::kV4Numbers>());
    return rows.k;
}

TEST(Interop, MlaRowsAreThoseOfVllm) {
    File file("vllm.mla");
    EXPECT_EQ(v32_rows(), file.take(kInteropRows * mla::kV32Bytes));
    const auto block = file.take(kInteropRows * mla::kV4Bytes);
    EXPECT_EQ(v4_block(), block);
    EXPECT_EQ(crc_of(Element::bf16, decoded_v4(block)), file.take_crc());
    EXPECT_TRUE(file.at_end());
}

// FlashMLA's tests bound V4's scales as V3.2's, at 10^-4: other bytes where a tile is small, which
// rows 1, 4, 7 and 8 are, and the same meaning.
TEST(Interop, MlaRowsOfFlashMlaAreReadAsItReadsThem) {
    File file("flashmla.mla");
    const auto rows = file.take(kInteropRows * mla::kV32Bytes);
    EXPECT_EQ(v32_rows(), rows);
    EXPECT_EQ(crc_of(Element::bf16, decoded_v32(rows)), file.take_crc());
    const auto block = file.take(kInteropRows * mla::kV4Bytes);
    EXPECT_EQ(crc_of(Element::bf16, decoded_v4(block)), file.take_crc());
    EXPECT_TRUE(file.at_end());
    const std::vector<std::byte> ours = v4_block();
    constexpr ptrdiff_t kBody = 576;
    for (const ptrdiff_t t : {0, 2, 3, 5, 6, 9, 10, 11})
        EXPECT_TRUE(std::equal(ours.begin() + t * kBody, ours.begin() + (t + 1) * kBody,
                               block.begin() + t * kBody))
            << t;
}

}  // namespace
}  // namespace quire::codec
