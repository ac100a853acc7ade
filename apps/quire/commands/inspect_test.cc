#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/quire/commands/command_line.h"
#include "apps/quire/commands/commands.h"
#include "tier/testing/disk_fixture.h"

namespace quire::commands {
namespace {

using testing::DiskFixture;

struct Output {
    int code = 0;
    std::string text;
    std::string errors;
};

Output inspect(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "quire inspect");
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    Output output;
    output.code = run_inspect(static_cast<int>(arguments.size()), arguments.data());
    output.text = ::testing::internal::GetCapturedStdout();
    output.errors = ::testing::internal::GetCapturedStderr();
    return output;
}

class InspectTest : public ::testing::Test {
 protected:
    // 20 blocks of three models, closed properly.
    InspectTest() {
        for (uint64_t i = 1; i <= 20; ++i)
            EXPECT_TRUE(put_one(disk_.store(), testing::make_slab(i, i - 1)).ok());
        EXPECT_TRUE(disk_.store().flush(testing::kTestTimeoutNs).ok());
        disk_.close();
    }

    // Flips a byte in the payload of the first slab.
    void damage() const {
        for (const auto& entry : std::filesystem::directory_iterator(disk_.dir().path())) {
            if (entry.file_size() < 64 << 10) continue;
            std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
            file.seekg(4096 + 4096 + 100);
            const char byte = static_cast<char>(file.get());
            file.seekp(4096 + 4096 + 100);
            file.put(static_cast<char>(byte ^ 1));
            ++damaged_files_;
            return;
        }
    }

    const char* dir() const { return disk_.dir().path().c_str(); }

    DiskFixture disk_;
    mutable int damaged_files_ = 0;
};

TEST_F(InspectTest, CountsWhatTheStoreWrote) {
    const Output output = inspect({dir(), "--verify", "--json"});
    ASSERT_EQ(output.code, kExitOk) << output.text << output.errors;
    const auto json = nlohmann::json::parse(output.text);
    EXPECT_EQ(json["blocks"], 20);
    EXPECT_EQ(json["verified_blocks"], 20);
    EXPECT_EQ(json["models"].size(), 3u);
    EXPECT_EQ(json["codecs"]["raw16"], 20);
    EXPECT_EQ(json["damaged_blocks"], 0);
    EXPECT_EQ(json["ok"], true);
}

TEST_F(InspectTest, TextNamesEverything) {
    const Output output = inspect({dir()});
    ASSERT_EQ(output.code, kExitOk) << output.text << output.errors;
    for (const char* word : {"segments", "20, ", "models", "(no tenant): 20 blocks",
                             "raw16: 20 blocks", "damage      none", "--verify"})
        EXPECT_NE(output.text.find(word), std::string::npos) << word << "\n" << output.text;
}

TEST_F(InspectTest, DamageIsFoundByVerifyAndFailsTheCommand) {
    damage();
    ASSERT_EQ(damaged_files_, 1);
    const Output output = inspect({dir(), "--verify"});
    EXPECT_EQ(output.code, kExitNotOk) << output.text;
    EXPECT_NE(output.text.find("1 block damaged"), std::string::npos) << output.text;
    EXPECT_NE(output.text.find("slab at byte 4096"), std::string::npos) << output.text;
}

TEST_F(InspectTest, RepairWritesTheIndexAnew) {
    const Output output = inspect({dir(), "--repair", "--verify", "--json"});
    ASSERT_EQ(output.code, kExitOk) << output.text << output.errors;
    EXPECT_NE(output.errors.find("20 blocks"), std::string::npos) << output.errors;
    EXPECT_EQ(nlohmann::json::parse(output.text)["verified_blocks"], 20);
}

TEST_F(InspectTest, DirectoryInUseIsAnError) {
    disk_.open();
    const Output output = inspect({dir()});
    EXPECT_EQ(output.code, kExitError);
    EXPECT_NE(output.errors.find(dir()), std::string::npos) << output.errors;
}

TEST(Inspect, WrongCallsAreErrors) {
    EXPECT_EQ(inspect({}).code, kExitError);
    EXPECT_EQ(inspect({"/nowhere/at/all"}).code, kExitError);
    EXPECT_EQ(inspect({"/tmp", "--no-such-flag"}).code, kExitError);
    EXPECT_EQ(inspect({"--help"}).code, kExitOk);
}

}  // namespace
}  // namespace quire::commands
