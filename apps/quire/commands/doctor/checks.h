// The checks of `quire doctor`, one group a file. Each may block for as long as its subject does:
// seconds on a slow disk, the client's timeout on a server that hangs.
#pragma once

#include <string>
#include <string_view>

#include "apps/quire/commands/doctor/finding.h"
#include "server/http_client.h"

namespace quire::doctor {

// CPU, instruction set, memory, limits, io_uring.
Findings check_machine();

// A directory for --disk: can be written, takes O_DIRECT, has room, how fast it is. Leaves nothing
// behind; a directory that does not exist is judged by the nearest folder above it.
Findings check_disk(const std::string& dir);

// A configuration file and the QUIRE_ variables of `environ`. `file` empty: the variables alone.
Findings check_config(const std::string& file, const char* const* environ);

// A running server: is it there and ready, what it serves, how its cache is doing, why recent
// prompts missed. `prompt` empty: none is explained.
Findings check_server(server::HttpClient& client, const std::string& prompt);

// --- the pure parts of check_server, for tests

// The tiers of GET /v1/cache: used, degraded, corrupt.
Findings judge_cache_status(std::string_view json);
// Why lookups missed, by the counters of GET /metrics, most frequent first.
Findings judge_misses(std::string_view prometheus_text);
// The answer of POST /v1/cache/explain.
Finding judge_explanation(std::string_view json);
// What to do about a reason for a miss; empty for those that are in order.
std::string_view miss_remedy(std::string_view reason);

}  // namespace quire::doctor
