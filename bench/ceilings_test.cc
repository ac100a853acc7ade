#include "bench/ceilings.h"

#include <filesystem>
#include <fstream>

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

TEST(Places, ScratchFolderIsGoneWithItsFiles) {
    const std::string parent = ::testing::TempDir() + "quire-bench-test";
    std::string path;
    {
        auto scratch = ScratchFolder::create(parent);
        ASSERT_TRUE(scratch.ok());
        path = scratch->path();
        std::ofstream(path + "/file") << "x";
        EXPECT_TRUE(std::filesystem::exists(path + "/file"));
    }
    EXPECT_FALSE(std::filesystem::exists(path));
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
