#include <string>

#include <gtest/gtest.h>

#include "apps/quire/serve/serve_command.h"
#include "server/test_server.h"

namespace quire {
namespace {

// What `quire serve` says before it gives up.
std::string complaint(const std::string& port) {
    const char* const argv[] = {
        "serve", "no-such-model.gguf", "--port", port.c_str(), "--kv-memory",
        "16MiB", "--host-memory",      "0"};
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(run_serve(static_cast<int>(std::size(argv)), argv), 1);
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

}  // namespace
}  // namespace quire
