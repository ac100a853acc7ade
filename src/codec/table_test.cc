// Names and ids.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/testing/pages.h"

namespace quire::codec {
namespace {

using ::testing::HasSubstr;

TEST(CodecTable, NamesAndIdsLeadBackToTheirCodec) {
    std::set<uint32_t> ids;
    std::set<std::string> names;
    for (const CodecSpec& spec : testing::every_codec()) {
        const std::string name = codec_name(spec);
        EXPECT_TRUE(ids.insert(spec.id()).second) << name;
        EXPECT_TRUE(names.insert(name).second) << name;
        const auto by_name = find_codec(name);
        ASSERT_TRUE(by_name.ok()) << name;
        EXPECT_EQ(*by_name, spec) << name;
        const auto by_id = codec_of_id(spec.id(), spec.version);
        ASSERT_TRUE(by_id.ok()) << name;
        EXPECT_EQ(*by_id, spec) << name;
    }
}

// Ids are in files: they never change. raw16 is what slabs of version 1 say.
TEST(CodecTable, IdsStayAsTheyAre) {
    const std::pair<const char*, uint32_t> kIds[] = {
        {"raw16", 0x00000001},         {"fp8_e4m3", 0x00000002},
        {"fp8_e4m3_head", 0x00010002}, {"fp8_e4m3_token", 0x00020002},
        {"fp8_e5m2", 0x00040002},      {"fp8_e5m2_token", 0x00060002},
        {"i2c", 0x00002207},           {"bx", 0x0000000b},
        {"tq2.5", 0x0000220d},         {"k8v8", 0x00008803},
        {"k6v4", 0x00004603},          {"k2v2", 0x00002203}};
    for (const auto& [name, id] : kIds) {
        const auto spec = find_codec(name);
        ASSERT_TRUE(spec.ok()) << name;
        EXPECT_EQ(spec->id(), id) << name;
        EXPECT_EQ(spec->version, 1) << name;
    }
}

TEST(CodecTable, OtherNamesOfTheHotFamily) {
    for (const auto& [alias, name] : {std::pair{"i8r", "k8v8"},
                                      {"i6r", "k6v6"},
                                      {"i4r", "k4v4"},
                                      {"tq4", "k4v4"},
                                      {"tq3", "k3v3"}})
        EXPECT_EQ(codec_name(*find_codec(alias)), name);
}

TEST(CodecTable, AnUnknownNameIsRefusedWithTheNearest) {
    for (const auto& [wrong, near] : {std::pair{"k8v9", "k8v8"},
                                      {"fp8_e4m4", "fp8_e4m3"},
                                      {"raw32", "raw16"},
                                      {"K6V4", "k6v4"},
                                      {"k1v1", "k"},
                                      {"", "raw16"}}) {
        const auto found = find_codec(wrong);
        ASSERT_EQ(found.code(), Code::invalid) << wrong;
        EXPECT_THAT(found.error().message, HasSubstr(near)) << wrong;
    }
}

TEST(CodecTable, UnknownIdsAndVersionsAreMisses) {
    const CodecSpec k6v4 = *find_codec("k6v4");
    EXPECT_EQ(codec_of_id(0, 1).code(), Code::miss);
    EXPECT_EQ(codec_of_id(0xfe, 1).code(), Code::miss);
    EXPECT_EQ(codec_of_id(k6v4.id() | 1u << 16, 1).code(), Code::miss);  // an option it has not
    EXPECT_EQ(codec_of_id(0x1203, 1).code(), Code::miss);                // k2v1
    const auto future = codec_of_id(k6v4.id(), 2);
    ASSERT_EQ(future.code(), Code::miss);
    EXPECT_THAT(future.error().message, HasSubstr("version 2"));
    EXPECT_EQ(codec_of_id(k6v4.id(), 0).code(), Code::miss);
}

TEST(CodecTable, AShapeThatDoesNotFitNamesItself) {
    const Status status = check_geometry(*find_codec("k6v4"), {.head_dim = 72, .kv_heads = 5});
    ASSERT_EQ(status.code(), Code::unsupported);
    EXPECT_THAT(status.error().message, HasSubstr("k6v4"));
    EXPECT_THAT(status.error().message, HasSubstr("head_dim 72, 5 KV heads"));
    EXPECT_THAT(status.error().message, HasSubstr("multiple of 16"));
}

TEST(CodecTable, BitsCountScalesAndThereIsNoPadding) {
    const Geometry g{.head_dim = 64};
    EXPECT_DOUBLE_EQ(bits_per_element(*find_codec("raw16"), g), 16);
    EXPECT_DOUBLE_EQ(bits_per_element(*find_codec("fp8_e4m3"), g), 8);
    EXPECT_DOUBLE_EQ(bits_per_element(*find_codec("fp8_e4m3_token"), g), 8.25);
    EXPECT_DOUBLE_EQ(bits_per_element(*find_codec("k6v4"), g), 5.125);
    EXPECT_DOUBLE_EQ(bits_per_element(*find_codec("k3v2"), {.head_dim = 80}), 2.6);
}

TEST(CodecTable, TheBestOpsNeedNoMoreThanAsked) {
    for (const CodecRow& row : codec_table()) {
        EXPECT_EQ(best_ops(row, Isa::ref).isa, Isa::ref);
        EXPECT_LE(best_ops(row, Isa::avx2).isa, Isa::avx2);
        EXPECT_TRUE(best_ops(row).cpu_has_it());
    }
}

}  // namespace
}  // namespace quire::codec
