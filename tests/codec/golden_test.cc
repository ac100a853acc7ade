// Every implementation against the committed golden vectors.
#include "codec/vectors/golden.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/codec_table.h"
#include "codec/vectors/ec_vectors.h"
#include "codec/vectors/mla_vectors.h"

namespace quire::codec {
namespace {

std::vector<std::byte> read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

std::vector<GoldenRecord> all_records() {
    std::vector<GoldenRecord> all;
    for (const auto& entry : std::filesystem::directory_iterator(QUIRE_GOLDEN_FOLDER)) {
        if (entry.path().extension() != ".bin") continue;
        auto records = read_golden(read_file(entry.path()));
        EXPECT_TRUE(records.ok()) << entry.path();
        if (records.ok()) all.insert(all.end(), records->begin(), records->end());
    }
    return all;
}

TEST(Golden, EveryInstructionSetWritesAndReadsThem) {
    const std::vector<GoldenRecord> records = all_records();
    std::set<std::string> members;
    for (const GoldenRecord& record : records) {
        const auto spec = codec_of(record.description);
        ASSERT_TRUE(spec.ok()) << spec.error().message;
        members.insert(codec_name(*spec));
        for (const PageCodecOps& ops : row_of(*spec).ops()) {
            if (!ops.cpu_has_it()) continue;
            const Status status = check_golden(record, ops);
            EXPECT_TRUE(status.ok()) << status.error().message;
        }
    }
    for (const CodecRow& row : codec_table())
        for (const CodecSpec& spec : row.specs())
            EXPECT_TRUE(members.contains(codec_name(spec)))
                << codec_name(spec) << " has no golden vectors";
}

TEST(Golden, MlaRowsAreTheCommittedOnes) {
    EXPECT_TRUE(mla_vectors() ==
                read_file(std::filesystem::path(QUIRE_GOLDEN_FOLDER) / "mla.rows"));
}

TEST(Golden, EcBlockIsTheCommittedOne) {
    const std::vector<std::byte> committed =
        read_file(std::filesystem::path(QUIRE_GOLDEN_FOLDER) / "ec.block");
    ASSERT_FALSE(committed.empty());
    for (const ec::Kernels& kernels : ec::all_kernels()) {
        if (!kernels.cpu_has_it()) continue;
        EXPECT_TRUE(ec_vectors(kernels) == committed) << kernels.name;
    }
}

TEST(Golden, OneOtherByteIsFound) {
    for (GoldenRecord record : all_records()) {
        const CodecSpec spec = *codec_of(record.description);
        record.page[record.page.size() / 3] ^= std::byte{1};
        const Status status = check_golden(record, best_ops(row_of(spec)));
        ASSERT_EQ(status.code(), Code::corrupt);
        EXPECT_THAT(status.error().message, ::testing::HasSubstr(codec_name(spec)));
    }
}

TEST(Golden, ADamagedFileIsRefused) {
    const CodecSpec spec = *find_codec("k3v2");
    const GoldenRecord record = make_golden(spec, {.head_dim = 16}, 3, row_of(spec).ops()[0]);
    const std::vector<std::byte> file = write_golden(std::span(&record, 1));
    ASSERT_TRUE(read_golden(file).ok());
    for (size_t i = 0; i < file.size(); ++i) {
        std::vector<std::byte> damaged = file;
        damaged[i] ^= std::byte{4};
        EXPECT_EQ(read_golden(damaged).code(), Code::corrupt) << i;
        EXPECT_EQ(read_golden(std::span(file).first(i)).code(), Code::corrupt) << i;
    }
}

// The first numbers of the input, so that a change of the generator shows by itself.
TEST(Golden, InputIsWhatTheReadmeSays) {
    const GoldenInput in = golden_input(64, 16, 1);
    EXPECT_EQ(in.k[1 * 64], 0.0f);
    EXPECT_EQ(in.k[3 * 64 + 9], 1.5f);
    EXPECT_TRUE(std::isnan(in.k[5 * 64 + 5]));
    double sum = 0, squares = 0;
    for (size_t i = 10 * 64; i < 16 * 64; ++i) {
        sum += in.v[i];
        squares += in.v[i] * in.v[i];
    }
    EXPECT_NEAR(sum / 384, 0, 0.3);
    EXPECT_NEAR(squares / 384, 4, 0.6);
}

}  // namespace
}  // namespace quire::codec
