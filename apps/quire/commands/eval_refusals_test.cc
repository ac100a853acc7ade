// What `quire eval` and `quire calibrate` find wrong before they open the model: here that is no
// model.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/quire/commands/command_line.h"
#include "apps/quire/commands/commands.h"

namespace quire::commands {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(EvalRefusals, NamesAndFilesAreLookedAtBeforeTheModel) {
    const std::string other = ::testing::TempDir() + "quire_eval_refusals.txt";
    std::ofstream(other) << "no model, no sidecar, no schedule";
    const auto refusal = [&](std::vector<const char*> flags) {
        flags.insert(flags.begin(), {"quire eval", other.c_str(), "--generate", "256"});
        ::testing::internal::CaptureStderr();
        EXPECT_EQ(run_eval(static_cast<int>(flags.size()), flags.data()), kExitError);
        return ::testing::internal::GetCapturedStderr();
    };
    const std::string of_model = refusal({"--caches", "k8v8"});
    EXPECT_THAT(of_model, HasSubstr(other));
    struct Case {
        std::vector<const char*> flags;
        const char* words;
    };
    for (const Case& c : {
             Case{{"--caches", "k9v9"}, "there is no codec 'k9v9'"},
             Case{{"--caches", "k9v9:served"}, "k9v9:served: there is no codec 'k9v9'"},
             Case{{"--caches", "fp8_e4m3:served"}, "attention cannot read codec fp8_e4m3"},
             Case{{"--caches", "k6v4+ec:99"}, "0.5 to 8"},
             Case{{"--caches", "k6v4+ec:2"}, "ec:2 needs --sidecar FILE"},
             Case{{"--caches", "ec:2.7"}, "ec:2.7 needs --sidecar FILE"},
             Case{{"--caches", "k8v8", "--sidecar", "/nowhere"}, "the sidecar /nowhere"},
             Case{{"--caches", "k8v8", "--sidecar", other.c_str()}, "sidecar"},
             Case{{"--schedule-file", "/nowhere.yaml"}, "/nowhere.yaml"},
             Case{{"--schedule-file", other.c_str()}, "the schedule "},
             Case{{"--calibration", "/nowhere.txt"}, "/nowhere.txt"},
             Case{{"--caches", "k8v8", "--svg", "/nowhere/x.svg"}, "--svg: there is no folder"},
             Case{{"--caches", "k8v8", "--save-text", "/proc/x"}, "--save-text: "},
             Case{{"--caches", "k8v8", "--sink-tokens", "20"}, "--sink-tokens 20"},
         }) {
        const std::string said = refusal(c.flags);
        EXPECT_THAT(said, HasSubstr(c.words));
        EXPECT_NE(said, of_model);
        EXPECT_THAT(said, Not(HasSubstr("tokens written by the model")));
    }
    std::filesystem::remove(other);
}

TEST(CalibrateRefusals, FilesAreLookedAtBeforeTheModel) {
    const std::string other = ::testing::TempDir() + "quire_calibrate_refusals.txt";
    std::ofstream(other) << "no model, no sidecar";
    const auto refusal = [&](const char* flag, const std::string& path) {
        const char* const argv[] = {"quire calibrate", other.c_str(), flag, path.c_str()};
        ::testing::internal::CaptureStderr();
        EXPECT_EQ(run_calibrate(static_cast<int>(std::size(argv)), argv), kExitError);
        return ::testing::internal::GetCapturedStderr();
    };
    EXPECT_THAT(refusal("--out", "/nowhere/m.sidecar"), HasSubstr("--out: there is no folder"));
    EXPECT_THAT(refusal("--out", "/proc/m.sidecar"), HasSubstr("in the folder /proc"));
    EXPECT_THAT(refusal("--sensitivity", "/nowhere"), HasSubstr("the sidecar /nowhere"));
    EXPECT_THAT(refusal("--sensitivity", other), HasSubstr("sidecar"));
    std::filesystem::remove(other);
}

}  // namespace
}  // namespace quire::commands
