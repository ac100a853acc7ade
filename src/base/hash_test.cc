#include "base/hash.h"

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/crc32c_poly.h"

namespace quire {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

std::vector<std::byte> random_bytes(size_t size, std::mt19937_64& rng) {
    std::vector<std::byte> bytes(size);
    for (std::byte& b : bytes) b = static_cast<std::byte>(rng());
    return bytes;
}

// Straight from the definition, one bit at a time.
uint32_t crc32c_oracle(std::span<const std::byte> bytes) {
    uint32_t crc = ~0u;
    for (const std::byte b : bytes) {
        crc ^= std::to_integer<uint32_t>(b);
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    }
    return ~crc;
}

TEST(Sha256, MatchesKnownDigests) {
    const Digest128 empty = sha256_128({});
    EXPECT_EQ(empty.hi, 0xe3b0c44298fc1c14u);
    EXPECT_EQ(empty.lo, 0x9afbf4c8996fb924u);
    const Digest128 abc = sha256_128(bytes_of("abc"));
    EXPECT_EQ(abc.hi, 0xba7816bf8f01cfeau);
    EXPECT_EQ(abc.lo, 0x414140de5dae2223u);
}

TEST(Sha256, IsTheSameWhenCalledAgain) {
    const Digest128 first = sha256_128(bytes_of("one"));
    (void)sha256_128(
        bytes_of("another, longer than one SHA-256 block of sixty-four bytes, so that "
                 "state would be left behind"));
    const Digest128 again = sha256_128(bytes_of("one"));
    EXPECT_EQ(first.hi, again.hi);
    EXPECT_EQ(first.lo, again.lo);
}

TEST(Xxh3, MatchesKnownDigestsOfTheEmptyInput) {
    EXPECT_EQ(xxh3_64({}), 0x2d06800538d394c2u);
    const Digest128 empty = xxh3_128({});
    EXPECT_EQ(empty.hi, 0x99aa06d3014798d8u);
    EXPECT_EQ(empty.lo, 0x6001c324468d497fu);
}

TEST(Xxh3, SeedAndContentMatter) {
    EXPECT_NE(xxh3_64(bytes_of("quire"), 0), xxh3_64(bytes_of("quire"), 1337));
    EXPECT_NE(xxh3_128(bytes_of("quire")).hi, xxh3_128(bytes_of("quirf")).hi);
}

TEST(Crc32c, MatchesPublishedVectors) {
    EXPECT_EQ(crc32c({}), 0u);
    EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283u);
    std::vector<std::byte> block(32, std::byte{0});  // RFC 3720, B.4
    EXPECT_EQ(crc32c(block), 0x8a9136aau);
    block.assign(32, std::byte{0xff});
    EXPECT_EQ(crc32c(block), 0x62a8ab43u);
    for (size_t i = 0; i < 32; ++i) block[i] = static_cast<std::byte>(i);
    EXPECT_EQ(crc32c(block), 0x46dd794eu);
    for (size_t i = 0; i < 32; ++i) block[i] = static_cast<std::byte>(31 - i);
    EXPECT_EQ(crc32c(block), 0x113fdb5cu);
}

TEST(Crc32c, EveryPathMatchesTheBitwiseOracle) {
    std::mt19937_64 rng(1);
    std::vector<size_t> sizes;
    for (size_t size = 0; size < 1600; size += size < 40 ? 1 : 37) sizes.push_back(size);
    sizes.insert(sizes.end(), {12287, 12288, 12289, 13056, 24576 + 768 + 13});
    for (const size_t size : sizes) {
        for (const size_t shift : {0u, 1u, 7u}) {
            SCOPED_TRACE("size " + std::to_string(size) + " shift " + std::to_string(shift));
            const std::vector<std::byte> buffer = random_bytes(size + shift, rng);
            const auto bytes = std::span(buffer).subspan(shift);
            const uint32_t expected = crc32c_oracle(bytes);
            ASSERT_EQ(crc32c(bytes), expected);
            ASSERT_EQ(crc32c_detail::portable(bytes, 0), expected);
            if (crc32c_detail::hardware_supported()) {
                ASSERT_EQ(crc32c_detail::hardware(bytes, 0), expected);
            }
        }
    }
}

TEST(Crc32c, ContinuesFromAnyCut) {
    std::mt19937_64 rng(2);
    const std::vector<std::byte> bytes = random_bytes(20000, rng);
    const uint32_t whole = crc32c_oracle(bytes);
    for (int round = 0; round < 50; ++round) {
        const size_t cut = rng() % bytes.size();
        SCOPED_TRACE("seed 2, cut " + std::to_string(cut));
        const auto head = std::span(bytes).first(cut);
        const auto tail = std::span(bytes).subspan(cut);
        EXPECT_EQ(crc32c(tail, crc32c(head)), whole);
        EXPECT_EQ(crc32c_detail::portable(tail, crc32c_detail::portable(head, 0)), whole);
    }
}

TEST(Crc32c, ZerosOperatorFeedsZeros) {
    for (const size_t zeros : {1u, 3u, 256u, 4096u}) {
        const uint32_t register_before = 0x12345678;
        uint32_t expected = register_before;
        for (size_t bit = 0; bit < 8 * zeros; ++bit) expected = crc32c_detail::times_x(expected);
        EXPECT_EQ(crc32c_detail::ZerosTable(zeros).apply(register_before), expected);
        EXPECT_EQ(crc32c_detail::multiply(crc32c_detail::zeros_operator(zeros), register_before),
                  expected);
    }
}

}  // namespace
}  // namespace quire
