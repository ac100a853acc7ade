// From the command line, the environment and a file to what the engine and the server take.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "base/config.h"
#include "base/config_flags.h"
#include "base/options.h"
#include "base/result.h"
#include "engine/engine_options.h"
#include "server/server_options.h"

namespace quire {

// The options of `quire serve` out of all their sources, checked against this machine; `command` is
// who asks. REQUIRES: the app was parsed.
Result<ServeOptions> load_serve_options(const ConfigFlags& flags, std::string_view command);

// invalid: a policy that there is not; unsupported: an instruction set that this CPU lacks.
Result<EngineOptions> engine_options(const ServeOptions& options);
server::ServerOptions server_options(const ServeOptions& options);

}  // namespace quire
