#include "codec/codec_names.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/codec_table.h"

namespace quire::codec {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string problem(const Status& status) {
    return status.ok() ? "accepted" : status.error().message;
}
std::string pages(const std::string& name) {
    return problem(check_page_codec(name));
}
std::string packing(const std::string& name) {
    return problem(check_packing(name));
}

TEST(CodecNames, EachOptionTakesItsOwn) {
    for (const char* name : {"", "raw16", "schedule", "k8v8", "k2v2", "i6r"})
        EXPECT_EQ(pages(name), "accepted") << name;
    for (const char* name : {"", "none", "zstd", "bx", "ec:2.7", "ec:0.5:alone"})
        EXPECT_EQ(packing(name), "accepted") << name;
}

TEST(CodecNames, OfAnotherOptionSaysWhoTakesIt) {
    for (const char* name : {"ec:2.7", "ec:99", "zstd", "bx", "none"})
        EXPECT_THAT(pages(name), AllOf(HasSubstr("--kv-codec-cold (on disk)"),
                                       HasSubstr("--kv-codec-host"), Not(HasSubstr("nearest"))))
            << name;
    for (const char* name : {"fp8_e4m3", "i2c", "turboquant_3bit_nc"})
        EXPECT_THAT(pages(name), HasSubstr("quire eval --caches " + std::string(name)));
    for (const char* name : {"k6v4", "raw16", "schedule"})
        EXPECT_THAT(packing(name), HasSubstr(": --kv-codec takes it")) << name;
    EXPECT_THAT(packing("fp8_e4m3"), HasSubstr(": quire eval --caches takes it"));
}

// Whatever is suggested must be accepted.
TEST(CodecNames, OnlyWhatMayBeGivenIsSuggested) {
    for (const char* name : {"k9v9", "q8_0", "fp8", "bx2", "zst", "ec2.7", "shedule", "raw"}) {
        const std::string text = pages(name);
        const std::string begin = "nearest: ";
        const size_t from = text.find(begin);
        ASSERT_NE(from, std::string::npos) << text;
        std::string list = text.substr(from + begin.size());
        list.resize(list.find(';'));
        size_t suggested = 0;
        for (size_t at = 0; at < list.size(); ++suggested) {
            const size_t end = std::min(list.find(", ", at), list.size());
            EXPECT_EQ(pages(list.substr(at, end - at)), "accepted") << name;
            at = end + 2;
        }
        EXPECT_EQ(suggested, 3u);
        EXPECT_THAT(text, HasSubstr("raw16, schedule, k{2..8}v{2..8}"));
        EXPECT_THAT(text, Not(HasSubstr("fp8_")));
    }
    EXPECT_THAT(pages("shedule"), HasSubstr("nearest: schedule"));
    EXPECT_THAT(packing("lzma"), HasSubstr("zstd"));
    EXPECT_THAT(packing("ec:9"), HasSubstr("0.5 to 8"));
}

TEST(CodecNames, EveryRowHasItsUses) {
    size_t of_pages = 0, of_packing = 0;
    for (const CodecRow& row : codec_table())
        for (const CodecSpec& spec : row.specs()) {
            const std::string name = row.name(spec);
            EXPECT_EQ(uses_of(row).pages, pages(name) == "accepted") << name;
            EXPECT_EQ(uses_of(row).packing, packing(name) == "accepted") << name;
            of_pages += uses_of(row).pages;
            of_packing += uses_of(row).packing;
        }
    EXPECT_EQ(of_pages, 50u);  // raw16 and 7 x 7 widths
    EXPECT_EQ(of_packing, 1u);
}

}  // namespace
}  // namespace quire::codec
