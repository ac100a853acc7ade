#include "kernels/cuda/copy/copy_plan.h"

#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::kernels::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::byte* from(uintptr_t at) {
    return reinterpret_cast<const std::byte*>(0x100000 + at);
}
std::byte* to(uintptr_t at) {
    return reinterpret_cast<std::byte*>(0x900000 + at);
}

TEST(CopyPlan, JoinsWhatFollowsOnBothSides) {
    const CopyFragment fragments[] = {
        {from(0), to(0), 16},   {from(16), to(16), 32},
        {from(48), to(64), 16},                           // a gap where it goes
        {from(64), to(80), 0},                            // nothing
        {from(64), to(80), 16}, {from(96), to(96), 16}};  // a gap where it comes from
    EXPECT_THAT(join_fragments(fragments),
                ElementsAre(CopyFragment{from(0), to(0), 48}, CopyFragment{from(48), to(64), 32},
                            CopyFragment{from(96), to(96), 16}));
    EXPECT_TRUE(join_fragments({}).empty());
}

TEST(CopyPlan, CutsIntoPieces) {
    const CopyFragment fragments[] = {{from(0), to(0), 80}, {from(100), to(200), 32}};
    EXPECT_THAT(cut_fragments(fragments, 32), ElementsAre(CopyPiece{from(0), to(0), 0, 32, 0},
                                                          CopyPiece{from(32), to(32), 32, 32, 0},
                                                          CopyPiece{from(64), to(64), 64, 16, 0},
                                                          CopyPiece{from(100), to(200), 0, 32, 1}));
}

TEST(CopyPlan, RefusesWhatCannotBeCopied) {
    const auto message = [](std::vector<CopyFragment> fragments) {
        const Status status = check_fragments(fragments);
        return status.ok() ? std::string() : status.error().message;
    };
    EXPECT_EQ(message({{from(0), to(0), 16}, {from(0), to(16), 16}, {nullptr, nullptr, 0}}), "");
    EXPECT_THAT(message({{from(0), to(0), 16}, {nullptr, to(16), 16}}), HasSubstr("fragment 1"));
    EXPECT_THAT(message({{from(8), to(0), 16}}), HasSubstr("16 bytes"));
    EXPECT_THAT(message({{from(0), to(0), 24}}), HasSubstr("16 bytes"));
    EXPECT_THAT(message({{from(0), to(64), 32}, {from(512), to(0), 80}}),
                HasSubstr("writes where"));
    EXPECT_THAT(message({{from(0), to(0), 64}, {to(48), to(512), 16}}), HasSubstr("reads what"));
    EXPECT_THAT(message({{from(0), to(0), 64}, {to(64), to(512), 16}}), "");
    EXPECT_THAT(message({{from(0), to(0), ~uint64_t{15}}}), HasSubstr("last address"));
}

// Joined and cut, fragments move the same bytes.
TEST(CopyPlan, MovesTheSameBytes) {
    std::mt19937_64 rng(20261130);
    for (int round = 0; round < 100; ++round) {
        std::vector<std::byte> source(8192), plain(8192), planned(8192);
        for (std::byte& b : source) b = static_cast<std::byte>(rng());
        std::vector<CopyFragment> fragments;
        for (size_t at = 0; at < source.size();) {
            const size_t bytes = std::min<size_t>(rng() % 20 * 16, source.size() - at);
            if (rng() % 3 != 0) fragments.push_back({source.data() + at, plain.data() + at, bytes});
            at += bytes;
        }
        const auto move = [](const auto& list) {
            for (const auto& f : list) std::memcpy(f.to, f.from, f.bytes);
        };
        move(fragments);
        std::vector<CopyFragment> moved = fragments;
        for (CopyFragment& f : moved) f.to = planned.data() + (f.to - plain.data());
        const auto joined = join_fragments(moved);
        EXPECT_LE(joined.size(), moved.size());
        move(cut_fragments(joined, static_cast<uint32_t>(16 * (1 + rng() % 16))));
        ASSERT_EQ(plain, planned) << round;
    }
}

}  // namespace
}  // namespace quire::kernels::cuda
