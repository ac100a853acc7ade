#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/quire/serve/serve_command.h"
#include "server/test_server.h"

namespace quire {
namespace {

// What `quire serve` says before it gives up.
std::string complaint(const std::string& port, const std::vector<const char*>& more = {}) {
    std::vector<const char*> argv = {
        "serve", "no-such-model.gguf", "--port", port.c_str(), "--kv-memory",
        "16MiB", "--host-memory",      "0"};
    argv.insert(argv.end(), more.begin(), more.end());
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(run_serve(static_cast<int>(argv.size()), argv.data()), 1);
    return ::testing::internal::GetCapturedStderr();
}

TEST(Serve, APortInUseIsToldBeforeTheModelIsOpened) {
    const server::TestServer other;
    const std::string port = std::to_string(other.server->port());
    const std::string said = complaint(port);
    EXPECT_NE(said.find("port " + port), std::string::npos) << said;
    EXPECT_NE(said.find("in use"), std::string::npos) << said;
    EXPECT_EQ(said.find("no-such-model"), std::string::npos) << said;
    EXPECT_NE(complaint("0").find("no-such-model"), std::string::npos);
}

TEST(Serve, SaysAtOnceThatTheModelIsBeingOpened) {
    const std::string said = complaint("0");
    const size_t line = said.find("opening");
    ASSERT_NE(line, std::string::npos) << said;
    EXPECT_LT(line, said.find("quire serve: ")) << "before it is known how that goes";
}

// Of a model that is not there, nothing is said: these are found before it is opened.
TEST(Serve, WhatIsWrongWithNamesAndFilesIsToldBeforeTheModelIsOpened) {
    const std::string text = ::testing::TempDir() + "quire_serve_test.txt";
    std::ofstream(text) << "neither a sidecar nor a schedule";
    const std::string learned = "learn:" + ::testing::TempDir() + "quire-none/m.sidecar";
    struct Case {
        std::vector<const char*> flags;
        const char* words;
    };
    for (const Case& c : {
             Case{{"--kv-codec", "k9v9"}, "--kv-codec: there is no codec 'k9v9'"},
             Case{{"--kv-codec", "ec:2.7"}, "--kv-codec-cold (on disk)"},
             Case{{"--kv-codec-allow", "zstd"}, "--kv-codec-allow: zstd"},
             Case{{"--kv-codec", "k6v4", "--kv-sidecar", "/nowhere"}, "--kv-sidecar: cannot read"},
             Case{{"--kv-codec", "k6v4", "--kv-sidecar", text.c_str()}, "--kv-sidecar: "},
             Case{{"--kv-codec", "k6v4", "--kv-sidecar", learned.c_str()}, "make it"},
             Case{{"--kv-codec", "k6v4", "--kv-sidecar", "learn:/proc/m"}, "the folder /proc"},
             Case{{"--kv-codec", "schedule", "--kv-schedule", "/nowhere"}, "--kv-schedule: "},
             Case{{"--kv-codec", "schedule", "--kv-schedule", text.c_str()}, "--kv-schedule: "},
         }) {
        const std::string said = complaint("0", c.flags);
        EXPECT_NE(said.find(std::string("quire serve: ")), std::string::npos) << said;
        EXPECT_NE(said.find(c.words), std::string::npos) << said;
        EXPECT_EQ(said.find("cannot read the model"), std::string::npos) << said;
    }
    std::filesystem::remove(text);
}

}  // namespace
}  // namespace quire
