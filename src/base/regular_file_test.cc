#include "base/regular_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "base/scratch_file.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

TEST(RegularFile, IsReadWholeUpToTheLimit) {
    const ScratchFile file;
    const std::string text(200'000, 'x');
    ASSERT_EQ(::pwrite(file.fd(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    EXPECT_EQ(*read_regular_file(file.path(), "it", text.size()), text);
    const auto more = read_regular_file(file.path(), "the thing", text.size() - 1);
    EXPECT_EQ(more.code(), Code::invalid);
    EXPECT_THAT(more.error().message, HasSubstr("the thing " + file.path() + " is larger than"));
}

// A pipe without a writer would be waited for; one with a writer would be read to its end.
TEST(RegularFile, AnythingElseIsAnErrorAtOnce) {
    const ScratchFile file;
    const std::string fifo = file.path() + ".fifo";
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    const std::pair<std::string, const char*> cases[] = {
        {fifo, "is a pipe, not a regular file"},
        {"/tmp", "is a directory, not a regular file"},
        {"/dev/null", "is a device, not a regular file"}};
    for (const auto& [path, complaint] : cases) {
        for (const auto& result :
             {read_regular_file(path, "the thing", 100), read_config_file(path)}) {
            ASSERT_FALSE(result.ok()) << path;
            EXPECT_EQ(result.code(), Code::invalid);
            EXPECT_THAT(result.error().message, HasSubstr(complaint));
        }
    }
    ::unlink(fifo.c_str());
    const auto missing = read_regular_file("/nowhere/at/all", "the thing", 100);
    EXPECT_EQ(missing.code(), Code::io);
    EXPECT_THAT(missing.error().message, HasSubstr("cannot read the thing /nowhere/at/all"));
}

}  // namespace
}  // namespace quire
