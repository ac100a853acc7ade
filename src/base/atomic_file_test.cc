#include "base/atomic_file.h"

#include <cerrno>
#include <filesystem>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/regular_file.h"
#include "base/scratch_file.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

// A folder for one test.
class AtomicFile : public ::testing::Test {
 protected:
    void SetUp() override {
        ::unlink(name_.path().c_str());
        std::filesystem::create_directory(folder());
    }
    void TearDown() override { std::filesystem::remove_all(folder()); }

    std::string folder() const { return name_.path(); }
    std::string path() const { return folder() + "/file"; }
    size_t entries() const {
        const std::filesystem::directory_iterator all(folder());
        return static_cast<size_t>(std::distance(begin(all), end(all)));
    }

 private:
    ScratchFile name_;
};

Status write(const std::string& path, const std::string& text) {
    return write_file_atomically(path, "the thing", std::as_bytes(std::span(text)));
}

TEST_F(AtomicFile, ReplacesWhatWasThereAndLeavesNothingElse) {
    const std::string long_text(3 << 20, 'x');
    for (const std::string& text : {std::string("first"), long_text, std::string()}) {
        ASSERT_TRUE(write(path(), text).ok());
        EXPECT_EQ(*read_regular_file(path(), "it", 4 << 20), text);
        EXPECT_EQ(entries(), 1u);
    }
}

TEST_F(AtomicFile, AFailureChangesNothing) {
    const Status nowhere = write(folder() + "/no/folder", "text");
    EXPECT_EQ(nowhere.code(), Code::io);
    EXPECT_EQ(nowhere.error().detail, ENOENT);
    EXPECT_THAT(nowhere.error().message, HasSubstr("cannot write the thing " + folder()));

    ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
    const Status pipe = write(path(), "text");
    EXPECT_EQ(pipe.code(), Code::invalid);
    EXPECT_THAT(pipe.error().message, HasSubstr("no regular file"));
    EXPECT_TRUE(std::filesystem::is_fifo(path()));
    EXPECT_EQ(entries(), 1u);
}

TEST_F(AtomicFile, OneOfTwoWritersWins) {
    const std::string texts[] = {std::string(1 << 18, 'a'), std::string(1 << 18, 'b')};
    std::vector<std::thread> writers;
    for (const std::string& text : texts)
        writers.emplace_back([this, text] {
            for (int i = 0; i < 5; ++i) EXPECT_TRUE(write(path(), text).ok());
        });
    for (std::thread& writer : writers) writer.join();
    const auto found = read_regular_file(path(), "it", 1 << 20);
    ASSERT_TRUE(found.ok());
    EXPECT_TRUE(*found == texts[0] || *found == texts[1]);
    EXPECT_EQ(entries(), 1u);
}

}  // namespace
}  // namespace quire
