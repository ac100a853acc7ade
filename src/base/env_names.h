// Names of environment variables. Options have theirs by rule (config_spec.h: QUIRE_ and the key in
// upper case); here is the prefix and every variable with the prefix that is no option.
#pragma once

#include <array>
#include <string_view>

namespace quire {

inline constexpr std::string_view kEnvPrefix = "QUIRE_";

// Read by the tools around the binary; the binary leaves them alone.
inline constexpr std::array<std::string_view, 4> kReservedEnv = {
    "QUIRE_LLAMA_DIR",   // prefix with ggml and libllama, for the build
    "QUIRE_CMAKE_ARGS",  // more arguments for cmake, for tools/build
    "QUIRE_TEST_LONG",   // longer tests
    "QUIRE_DEMO_SHORT",  // a shorter demo
};

}  // namespace quire
