#include "format/slab.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hash.h"
#include "format/testing/own_claims.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kTokens = 16;

// 4 KiB aligned bytes.
class Buffer {
 public:
    explicit Buffer(size_t size) : size_(size), data_(new(kAlign) std::byte[size]{}) {}
    std::span<std::byte> span() { return {data_.get(), size_}; }
    std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

 private:
    static constexpr std::align_val_t kAlign{4096};
    struct Free {
        void operator()(std::byte* p) const { ::operator delete[](p, kAlign); }
    };
    size_t size_;
    std::unique_ptr<std::byte[], Free> data_;
};

Buffer make_slab(uint16_t layers, uint32_t layer_bytes, uint64_t seed) {
    Buffer buffer(slab_bytes_for(size_t{layers} * layer_bytes));
    std::mt19937_64 rng(seed);
    for (std::byte& b : buffer.span()) b = static_cast<std::byte>(rng());
    SlabHeader& h = *new (buffer.span().data()) SlabHeader;
    h.payload_bytes = layers * layer_bytes;
    h.key = {Hash128{rng(), rng()}};
    h.prefix = {Hash128{rng(), rng()}};
    h.parent_prefix = {Hash128{rng(), rng()}};
    h.model = {Hash128{rng(), rng()}};
    h.layout_digest = Hash128{rng(), rng()};
    h.layer_count = layers;
    h.layer_bytes = layer_bytes;
    h.token_count = kTokens;
    for (uint32_t i = 0; i < kTokens; ++i) h.tokens[i] = static_cast<TokenId>(rng() % 49152);
    seal_slab(buffer.span());
    return buffer;
}

SlabExpectation expectation_of(const Buffer& slab) {
    return own_claims(slab_header(slab.bytes()));
}

// Recomputes the header CRC the slow way, as if a writer had meant the header so.
void reseal_header(Buffer& slab) {
    SlabHeader& h = slab_header(slab.span());
    h.header_crc = 0;
    h.header_crc = crc32c(slab.bytes().first(kSlabHeaderBytes));
}

TEST(Slab, SealedSlabVerifies) {
    for (const auto& [layers, layer_bytes] :
         {std::pair<uint16_t, uint32_t>{30, 12288}, {1, 1024}, {18, 16384}, {3, 1000}, {256, 64}}) {
        SCOPED_TRACE(std::to_string(layers) + " layers of " + std::to_string(layer_bytes));
        const Buffer slab = make_slab(layers, layer_bytes, 7);
        EXPECT_EQ(slab.bytes().size() % kSlabAlign, 0u);
        const Status status = verify_slab(slab.bytes());
        EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
        EXPECT_TRUE(verify_slab_header(slab.bytes().first(kSlabHeaderBytes)).ok());
        EXPECT_TRUE(match_slab(slab.bytes(), expectation_of(slab)).ok());
    }
}

TEST(Slab, FieldOffsetsAreTheFormat) {
    EXPECT_EQ(offsetof(SlabHeader, magic), 0u);
    EXPECT_EQ(offsetof(SlabHeader, version), 4u);
    EXPECT_EQ(offsetof(SlabHeader, group), 6u);
    EXPECT_EQ(offsetof(SlabHeader, header_crc), 8u);
    EXPECT_EQ(offsetof(SlabHeader, payload_bytes), 12u);
    EXPECT_EQ(offsetof(SlabHeader, key), 16u);
    EXPECT_EQ(offsetof(SlabHeader, parent_key), 32u);
    EXPECT_EQ(offsetof(SlabHeader, prefix), 48u);
    EXPECT_EQ(offsetof(SlabHeader, parent_prefix), 64u);
    EXPECT_EQ(offsetof(SlabHeader, model), 80u);
    EXPECT_EQ(offsetof(SlabHeader, layout_digest), 96u);
    EXPECT_EQ(offsetof(SlabHeader, codec), 112u);
    EXPECT_EQ(offsetof(SlabHeader, codec_version), 116u);
    EXPECT_EQ(offsetof(SlabHeader, layer_count), 118u);
    EXPECT_EQ(offsetof(SlabHeader, layer_bytes), 120u);
    EXPECT_EQ(offsetof(SlabHeader, token_count), 124u);
    EXPECT_EQ(offsetof(SlabHeader, first_position), 128u);
    EXPECT_EQ(offsetof(SlabHeader, tenant), 136u);
    EXPECT_EQ(offsetof(SlabHeader, tokens), 200u);
    EXPECT_EQ(offsetof(SlabHeader, layer_crc), 1224u);
    EXPECT_EQ(offsetof(SlabHeader, page), 2248u);
    EXPECT_EQ(offsetof(SlabHeader, packed), 2288u);
    EXPECT_EQ(offsetof(SlabHeader, reserved), 2320u);
}

// Codes tell what they are; plain 16-bit pages tell it as they always did, with zeros.
TEST(Slab, PagesOfALayoutWithCodesDescribeThemselves) {
    KvLayout plain;
    plain.block_tokens = 64;
    plain.groups = {{.layers = {0, 1}, .kv_heads = 3, .head_dim = 64}};
    EXPECT_EQ(page_description(plain, 0), codec::PageDescription{});
    const KvLayout split = split_for_codes(
        plain, 64,
        {{0, {0, 1}, {.codec = 0x4603, .version = 1, .bytes = 5248, .transform = {1, 2}}}}, {3, 4});
    ASSERT_TRUE(split.validate().ok());
    EXPECT_EQ(page_description(split, 0), (codec::PageDescription{.codec = kCodecRaw16,
                                                                  .version = 1,
                                                                  .head_dim = 64,
                                                                  .kv_heads = 3,
                                                                  .block_tokens = 64,
                                                                  .page_bytes = 64 * 64 * 4,
                                                                  .sidecar = {3, 4}}));
    EXPECT_EQ(page_description(split, 1), (codec::PageDescription{.codec = 0x4603,
                                                                  .version = 1,
                                                                  .head_dim = 64,
                                                                  .kv_heads = 3,
                                                                  .block_tokens = 64,
                                                                  .page_bytes = 5248,
                                                                  .sidecar = {1, 2}}));
    EXPECT_TRUE(codec::codec_of(page_description(split, 1)).ok());
}

TEST(Slab, HeaderCrcIsThatOfTheHeaderWithItsFieldZero) {
    Buffer slab = make_slab(2, 512, 8);
    const uint32_t sealed = slab_header(slab.bytes()).header_crc;
    reseal_header(slab);
    EXPECT_EQ(slab_header(slab.bytes()).header_crc, sealed);
}

TEST(Slab, SealZeroesThePadding) {
    const Buffer slab = make_slab(3, 1000, 9);
    for (size_t i = kSlabHeaderBytes + 3000; i < slab.bytes().size(); ++i)
        ASSERT_EQ(slab.bytes()[i], std::byte{0}) << "offset " << i;
}

TEST(Slab, EveryFlippedBitIsCorrupt) {
    Buffer slab = make_slab(3, 1000, 10);
    for (size_t i = 0; i < slab.bytes().size(); ++i) {
        const auto bit = std::byte{1} << (i % 8);
        slab.span()[i] ^= bit;
        ASSERT_EQ(verify_slab(slab.bytes()).code(), Code::corrupt) << "offset " << i;
        if (i < kSlabHeaderBytes) {
            ASSERT_EQ(match_slab(slab.bytes(), expectation_of(slab)).code(), Code::corrupt);
        }
        slab.span()[i] ^= bit;
    }
    EXPECT_TRUE(verify_slab(slab.bytes()).ok());
}

TEST(Slab, EveryCutIsCorrupt) {
    const Buffer slab = make_slab(3, 3000, 11);
    for (size_t size = 0; size < slab.bytes().size(); size += 8) {
        const auto cut = slab.bytes().first(size);
        ASSERT_EQ(verify_slab(cut).code(), Code::corrupt) << "cut to " << size;
        if (size != kSlabHeaderBytes) {
            ASSERT_EQ(verify_slab_header(cut).code(), Code::corrupt) << "cut to " << size;
        }
    }
}

TEST(Slab, DamageIsNamedWithItsPlace) {
    Buffer slab = make_slab(4, 1024, 12);
    slab.span()[kSlabHeaderBytes + 2 * 1024 + 5] ^= std::byte{1};
    const Status status = verify_slab(slab.bytes());
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(status.error().message, HasSubstr("layer 2"));
    EXPECT_THAT(status.error().message, HasSubstr("offset 6144"));
    EXPECT_EQ(status.error().detail, 6144);
}

TEST(Slab, AnotherFormatVersionIsAMiss) {
    Buffer slab = make_slab(2, 1024, 13);
    slab_header(slab.span()).version = 2;
    reseal_header(slab);
    const Status status = verify_slab(slab.bytes());
    ASSERT_EQ(status.code(), Code::miss);
    EXPECT_THAT(status.error().message, HasSubstr("format version: 2"));
}

TEST(Slab, ImpossibleSizesUnderASoundCrcAreCorrupt) {
    using Edit = void (*)(SlabHeader&);
    const Edit edits[] = {
        [](SlabHeader& h) { h.layer_count = 0; },
        [](SlabHeader& h) { h.layer_count = 257; },
        [](SlabHeader& h) { h.layer_bytes = 0; },
        [](SlabHeader& h) { h.layer_bytes = 0xffffffff; },
        [](SlabHeader& h) { h.payload_bytes = 0xffffffff; },
        [](SlabHeader& h) { h.payload_bytes = h.layer_bytes = 0; },
        [](SlabHeader& h) { h.payload_bytes *= 2, h.layer_bytes *= 2; },
        [](SlabHeader& h) { h.token_count = 0; },
        [](SlabHeader& h) { h.token_count = 257; },
        [](SlabHeader& h) { h.tenant_bytes = 65; },
    };
    for (size_t i = 0; i < std::size(edits); ++i) {
        Buffer slab = make_slab(4, 4096, 14);
        edits[i](slab_header(slab.span()));
        reseal_header(slab);
        EXPECT_EQ(verify_slab(slab.bytes()).code(), Code::corrupt) << "edit " << i;
    }
}

TEST(Slab, AnotherBlockIsAMissThatSaysHow) {
    const Buffer slab = make_slab(2, 1024, 15);
    const SlabExpectation right = expectation_of(slab);
    std::vector<TokenId> tokens(right.tokens.begin(), right.tokens.end());
    tokens[3] ^= 1;
    const auto expect_miss = [&](SlabExpectation wrong, const char* named) {
        const Status status = match_slab(slab.bytes(), wrong);
        ASSERT_EQ(status.code(), Code::miss) << named;
        EXPECT_THAT(status.error().message, HasSubstr(named));
    };
    const auto with = [&](auto edit) {
        SlabExpectation e = right;
        edit(e);
        return e;
    };
    expect_miss(with([](auto& e) { e.key.value.lo ^= 1; }), "key");
    expect_miss(with([](auto& e) { e.model.value.hi ^= 1; }), "model");
    expect_miss(with([](auto& e) { e.layout_digest.lo ^= 1; }), "layout");
    expect_miss(with([](auto& e) { e.codec = 2; }), "codec");
    expect_miss(with([](auto& e) { e.codec_version = 2; }), "codec version");
    expect_miss(with([](auto& e) { e.page.codec = 2; }), "codec");
    expect_miss(with([](auto& e) { e.page.version = 2; }), "codec");
    expect_miss(with([](auto& e) { e.page.element = 1; }), "element");
    expect_miss(with([](auto& e) { e.page.head_dim = 64; }), "head_dim");
    expect_miss(with([](auto& e) { e.page.kv_heads = 3; }), "KV heads");
    expect_miss(with([](auto& e) { e.page.block_tokens = 64; }), "number of tokens");
    expect_miss(with([](auto& e) { e.page.page_bytes = 64; }), "size in bytes");
    expect_miss(with([](auto& e) { e.page.sidecar.lo = 1; }), "sidecar");
    expect_miss(with([](auto& e) { e.group = 1; }), "group");
    expect_miss(with([](auto& e) { e.prefix.value.lo ^= 1; }), "prefix");
    expect_miss(with([](auto& e) { e.parent_prefix.value.lo ^= 1; }), "parent");
    expect_miss(with([&](auto& e) { e.tokens = tokens; }), "token 3");
    expect_miss(with([](auto& e) { e.tokens = e.tokens.first(15); }), "token 15");
}

}  // namespace
}  // namespace quire
