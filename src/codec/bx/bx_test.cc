#include "codec/bx/bx.h"

#include <bit>
#include <cmath>

#include <gtest/gtest.h>

#include "codec/bx/plan.h"
#include "codec/isa_checks.h"
#include "codec/testing/pages.h"
#include "core/half.h"

namespace quire::codec::bx {
namespace {

constexpr uint64_t kSeed = 7;

std::vector<Version> versions_here() {
    std::vector<Version> all;
    for (const Version& one : versions())
        if (one.cpu_has_it()) all.push_back(one);
    return all;
}

std::vector<uint16_t> normal_words(size_t n, float deviation = 1) {
    std::mt19937_64 rng(kSeed);
    std::normal_distribution<float> normal(0, deviation);
    std::vector<uint16_t> words;
    for (size_t i = 0; i < n; ++i) words.push_back(from_f32(Element::bf16, normal(rng)));
    return words;
}

std::vector<std::byte> packed(const Version& v, const std::vector<uint16_t>& words) {
    std::vector<std::byte> page(page_bound(words.size() / 2), std::byte{0xee});
    v.pack(words.data(), words.size() / 2, page.data());
    return page;
}

std::vector<uint16_t> unpacked(const Version& v, const std::vector<std::byte>& page, size_t side) {
    std::vector<uint16_t> words(2 * side, 0x5555);
    v.unpack(page.data(), side, words.data());
    return words;
}

double bits(const std::vector<std::byte>& page, size_t numbers) {
    return 8.0 * static_cast<double>(stored_bytes(page.data(), page.size())) /
           static_cast<double>(numbers);
}

// Every word there is, in runs, alternating and at random: NaNs, infinities and subnormals keep
// their bits.
TEST(Bx, BringsEveryWordBack) {
    std::mt19937_64 rng(kSeed);
    std::vector<std::vector<uint16_t>> inputs(4, std::vector<uint16_t>(2 * kMaxSideNumbers));
    for (size_t i = 0; i < 2 * kMaxSideNumbers; ++i) {
        inputs[0][i] = static_cast<uint16_t>(i);
        inputs[1][i] = static_cast<uint16_t>(rng());
        inputs[2][i] = i % 2 == 0 ? 0x7fc1 : 0x8001;
        inputs[3][i] = static_cast<uint16_t>(i % 1000 == 999 ? rng() : 0x3f80 + rng() % 900);
    }
    inputs.push_back(normal_words(2 * 1024));
    inputs.push_back(normal_words(2 * 256, 1e-30f));
    for (const std::vector<uint16_t>& words : inputs)
        for (const Version& v : versions_here()) {
            const std::vector<std::byte> page = packed(v, words);
            EXPECT_EQ(page, packed(versions().front(), words)) << v.name;
            EXPECT_EQ(unpacked(v, page, words.size() / 2), words) << v.name;
        }
}

TEST(Bx, NormalNumbersTakeElevenBitsOrLess) {
    // Of exponents, 2.55 bits are the entropy; sign and mantissa are eight.
    const std::vector<uint16_t> words = normal_words(2 * 1024);
    EXPECT_LT(bits(packed(versions().front(), words), words.size()), 10.8);
    EXPECT_GT(bits(packed(versions().front(), words), words.size()), 10.5);
}

TEST(Bx, WhatDoesNotPayIsKeptAsItIs) {
    std::vector<uint16_t> words(2 * 1024);
    std::mt19937_64 rng(kSeed);
    for (uint16_t& word : words) word = static_cast<uint16_t>(rng());
    for (const Version& v : versions_here()) {
        const std::vector<std::byte> page = packed(v, words);
        EXPECT_EQ(stored_bytes(page.data(), page.size()), kPageHeaderBytes + 2 * words.size());
        EXPECT_TRUE(load_header(page.data() + kSideHeaderAt).raw);
    }
}

// The rest need not be kept: it says nothing.
TEST(Bx, BytesBehindTheStoredOnesAreZero) {
    const std::vector<uint16_t> words = normal_words(2 * 1024);
    for (const Version& v : versions_here()) {
        std::vector<std::byte> page = packed(v, words);
        const size_t stored = stored_bytes(page.data(), page.size());
        ASSERT_LT(stored, page.size());
        for (size_t i = stored; i < page.size(); ++i) ASSERT_EQ(page[i], std::byte{0});
        for (size_t i = stored; i < page.size(); ++i) page[i] = std::byte{0xff};
        EXPECT_EQ(unpacked(v, page, 1024), words) << v.name;
    }
}

TEST(Bx, ASideThatWouldEndBeyondThePageIsZero) {
    const std::vector<uint16_t> words = normal_words(2 * 1024);
    for (const Version& v : versions_here()) {
        std::vector<std::byte> page = packed(v, words);
        // All numbers of K at the last level leave V too little room.
        for (size_t i = 0; i < 3 * 1024 && kPageHeaderBytes + 1024 + i < page.size(); ++i)
            page[kPageHeaderBytes + 1024 + i] = std::byte{0xff};
        const std::vector<uint16_t> out = unpacked(v, page, 1024);
        EXPECT_NE(out[0], 0);
        EXPECT_EQ(std::vector<uint16_t>(out.begin() + 1024, out.end()),
                  std::vector<uint16_t>(1024, 0))
            << v.name;
    }
    std::vector<std::byte> page(page_bound(256), std::byte{0xff});
    EXPECT_EQ(stored_bytes(page.data(), page.size()), page.size());
}

TEST(Bx, TheNineMostFrequentExponentsHaveCodes) {
    uint32_t counts[256] = {};
    for (uint32_t e = 100; e < 116; ++e) counts[e] = e - 99;  // 1 to 16
    counts[40] = 15;
    Planes planes;
    const SideHeader h = choose(counts, 136 + 15, &planes);
    EXPECT_EQ(h.base, 100);
    for (uint32_t r = 0; r < kRanks; ++r) EXPECT_EQ(exponent_of(h, r), 115 - r);
    EXPECT_EQ(planes.later1, 151u - 16 - 15 - 14);
    EXPECT_EQ(planes.escapes, 28u + 15u);
    std::byte bytes[kSideHeaderBytes];
    store_header(h, bytes);
    const SideHeader back = load_header(bytes);
    EXPECT_EQ(back.base, h.base);
    EXPECT_EQ(back.raw, h.raw);
    EXPECT_EQ(std::memcmp(back.window, h.window, kRanks), 0);
}

TEST(Bx, F16AndHugePagesAreRefusedByName) {
    const CodecSpec spec = *find_codec("bx");
    const Geometry f16{.head_dim = 64};
    EXPECT_NE(check_geometry(spec, f16).error().message.find("bx takes bf16"), std::string::npos);
    const Geometry huge{.head_dim = 256, .block_tokens = 256, .element = Element::bf16};
    EXPECT_NE(check_geometry(spec, huge).error().message.find("32768"), std::string::npos);
}

}  // namespace
}  // namespace quire::codec::bx
