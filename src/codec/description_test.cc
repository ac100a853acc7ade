// A page's description leads back to its codec, and one flipped bit anywhere is caught.
#include "codec/description.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codec/testing/pages.h"

namespace quire::codec {
namespace {

using ::testing::HasSubstr;

constexpr Geometry kShape{
    .head_dim = 64, .kv_heads = 3, .block_tokens = 16, .element = Element::bf16};
constexpr Hash128 kSidecar{0x0123456789abcdef, 0xfedcba9876543210};

TEST(Description, LeadsBackToTheCodec) {
    for (const CodecSpec& spec : testing::every_codec()) {
        if (!check_geometry(spec, kShape).ok()) continue;
        const PageDescription d = describe(spec, kShape, kSidecar);
        const auto found = codec_of(d);
        ASSERT_TRUE(found.ok()) << codec_name(spec);
        EXPECT_EQ(*found, spec);
        EXPECT_EQ(geometry_of(d), kShape);
        EXPECT_TRUE(match_description(d, d).ok());
    }
}

TEST(Description, EveryFlippedBitIsAMiss) {
    const PageDescription expected = describe(*find_codec("k6v4"), kShape, kSidecar);
    for (size_t bit = 0; bit < sizeof(PageDescription) * 8; ++bit) {
        PageDescription damaged = expected;
        auto* bytes = reinterpret_cast<unsigned char*>(&damaged);
        bytes[bit / 8] ^= static_cast<unsigned char>(1u << bit % 8);
        const Status status = match_description(damaged, expected);
        ASSERT_EQ(status.code(), Code::miss) << "bit " << bit;
        EXPECT_FALSE(status.error().message.empty());
        // Alone, without an expectation, all but kv_heads, the sidecar and ids that name another
        // codec of the same size are caught too; the decode of the rest stays in bounds.
        if (const auto spec = codec_of(damaged); spec.ok()) {
            EXPECT_EQ(page_bytes(*spec, geometry_of(damaged)), damaged.page_bytes) << bit;
        }
    }
}

TEST(Description, SaysWhatDiffers) {
    const PageDescription ours = describe(*find_codec("k6v4"), kShape, kSidecar);
    const PageDescription other = describe(*find_codec("k4v4"), kShape, kSidecar);
    EXPECT_THAT(match_description(other, ours).error().message, HasSubstr("k4v4, not k6v4"));
    PageDescription future = ours;
    future.version = 9;
    EXPECT_THAT(codec_of(future).error().message, HasSubstr("version 9"));
    EXPECT_THAT(match_description(future, ours).error().message, HasSubstr("version 9"));
    PageDescription cut = ours;
    cut.page_bytes -= 32;
    EXPECT_THAT(codec_of(cut).error().message, HasSubstr("size in bytes"));
    PageDescription sidecar = ours;
    sidecar.sidecar = {};
    EXPECT_THAT(match_description(sidecar, ours).error().message,
                HasSubstr("0123456789abcdeffedcba9876543210"));
}

}  // namespace
}  // namespace quire::codec
