#include "bench/ceilings.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "bench/places.h"

namespace quire::bench {
namespace {

TEST(Ceilings, CopyTakesTime) {
    for (uint32_t threads : {1u, 2u}) {
        auto copy = CopyCeiling::create((1u << 20) + 4096, threads);
        ASSERT_TRUE(copy.ok());
        EXPECT_GT((*copy)->seconds(), 0);
    }
}

TEST(Ceilings, ReadLeavesNothingBehind) {
    auto scratch = ScratchFolder::create(::testing::TempDir() + "quire-bench-test");
    ASSERT_TRUE(scratch.ok());
    auto read = ReadCeiling::create(scratch->path(), 5'000'001);
    if (read.code() == Code::unsupported) GTEST_SKIP() << "no O_DIRECT in the test folder";
    ASSERT_TRUE(read.ok()) << read.error().message;
    auto seconds = (*read)->seconds();
    ASSERT_TRUE(seconds.ok());
    EXPECT_GT(*seconds, 0);
    read = make_error(Code::miss, "");
    EXPECT_TRUE(std::filesystem::is_empty(scratch->path()));
}

TEST(Places, MissingModelNamesTheRemedy) {
    auto models = find_models({"/nowhere/model.gguf"});
    ASSERT_FALSE(models.ok());
    EXPECT_NE(models.error().message.find("/nowhere/model.gguf"), std::string::npos);
}

TEST(Places, ScratchFolderNamesWhatItCannotCreate) {
    auto scratch = ScratchFolder::create("/proc/no-such");
    ASSERT_FALSE(scratch.ok());
    EXPECT_NE(scratch.error().message.find("/proc/no-such"), std::string::npos);
    EXPECT_NE(scratch.error().message.find("--dir"), std::string::npos);
}

}  // namespace
}  // namespace quire::bench
