#include "base/writable_place.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(WritablePlace, AsksByWritingAndLeavesNothing) {
    std::string dir = ::testing::TempDir() + "/quire-place-XXXXXX";
    ASSERT_NE(::mkdtemp(dir.data()), nullptr);
    EXPECT_TRUE(check_writable_place(dir + "/new").ok());
    std::ofstream(dir + "/old") << "kept";
    EXPECT_TRUE(check_writable_place(dir + "/old").ok());
    EXPECT_EQ(fs::file_size(dir + "/old"), 4u);
    EXPECT_EQ(std::distance(fs::directory_iterator(dir), {}), 1);

    const Status missing = check_writable_place(dir + "/none/m.sidecar");
    EXPECT_EQ(missing.code(), Code::io);
    EXPECT_THAT(missing.error().message,
                AllOf(HasSubstr("no folder " + dir + "/none"), HasSubstr("make it")));
    EXPECT_EQ(check_writable_place(dir + "/old/m").code(), Code::invalid);
    EXPECT_EQ(check_writable_place(dir).code(), Code::invalid);
    // Root may do everything, but not this.
    const Status read_only = check_writable_place("/proc/m.sidecar");
    EXPECT_EQ(read_only.code(), Code::io);
    EXPECT_THAT(read_only.error().message, HasSubstr("/proc"));
    fs::remove_all(dir);
}

}  // namespace
}  // namespace quire
