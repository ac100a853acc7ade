#include "base/arena.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

using ::testing::HasSubstr;

TEST(Arena, IsZeroedAlignedAndAtLeastAsLargeAsAsked) {
    for (const bool prefault : {false, true}) {
        auto arena = Arena::create({.bytes = 3'000'000, .prefault = prefault});
        ASSERT_TRUE(arena.ok()) << arena.error().message;
        EXPECT_GE(arena->size(), 3'000'000u);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(arena->data()) % (2 << 20), 0u);
        const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
        EXPECT_TRUE(std::ranges::all_of(arena->bytes(), is_zero));
        arena->bytes().front() = arena->bytes().back() = std::byte{1};
    }
}

TEST(Arena, ReservedHugePagesFallBack) {
    auto arena = Arena::create({.bytes = 1, .reserved_huge = true});
    ASSERT_TRUE(arena.ok());
    arena->bytes().back() = std::byte{1};
}

TEST(Arena, MovesKeepTheBytesWhereTheyAre) {
    auto made = Arena::create({.bytes = 4096});
    ASSERT_TRUE(made.ok());
    std::byte* const data = made->data();
    Arena first = std::move(*made);
    Arena second;
    second = std::move(first);
    EXPECT_EQ(second.data(), data);
    EXPECT_EQ(first.data(), nullptr);
}

TEST(Arena, RefusalsNameTheSize) {
    EXPECT_EQ(Arena::create({.bytes = 0}).code(), Code::invalid);
    const auto huge = Arena::create({.bytes = size_t{1} << 60, .what = "KV blocks"});
    ASSERT_EQ(huge.code(), Code::full);
    EXPECT_THAT(huge.error().message,
                HasSubstr("1.00 EiB (1152921504606846976 bytes) for KV blocks"));
    EXPECT_EQ(Arena::create({.bytes = ~size_t{0}}).code(), Code::full);
}

}  // namespace
}  // namespace quire
