// The options of `quire serve`: the table, and the table's values as a struct.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/log.h"
#include "base/result.h"

namespace quire {

enum class IsaChoice : uint8_t { automatic, ref, avx2, avx512 };

struct ApiKeyOption {
    std::string key;
    std::string tenant;
};

struct ServeOptions {
    std::string model_path;
    std::string model_name;  // empty: derived from the model file
    std::string host;
    uint16_t port = 0;
    std::vector<ApiKeyOption> api_keys;  // from api-keys and api-keys-file
    bool metrics_key = false;            // /metrics needs one of them too

    bool cache = true;
    uint64_t kv_memory_bytes = 0;    // G1
    uint64_t host_memory_bytes = 0;  // G2; 0: none
    std::string disk_path;           // G3; empty: none
    uint64_t disk_bytes = 0;
    uint32_t block_tokens = 0;
    std::string kv_codec;
    std::vector<std::string> kv_codecs_allowed;  // further ones, that requests may ask for
    uint32_t kv_sinks = 0;                       // tokens
    uint32_t kv_recent_tokens = 0;               // of a span that is exact for its queries
    std::vector<uint32_t> kv_skip_layers;        // that no codec is for
    bool kv_bf16 = false;                        // 16-bit numbers are bf16, not f16
    std::string kv_schedule;                     // a file; empty: the sidecar's widths
    std::string kv_sidecar;                      // empty: none
    uint32_t kv_learn_tokens = 0;                // where it is missing; 0: it must be there
    std::string kv_codec_host;                   // "none": slabs in G2 are as in G1
    std::string kv_codec_cold;                   // "none": slabs on disk are as in memory
    uint32_t unpack_threads = 0;                 // that unpack for requests, all tiers together
    uint32_t cold_cpu_percent = 0;               // of a core, that all packing takes at most
    std::string evict;
    std::string admit_host;
    std::string admit_disk;
    bool write_through_host = true;  // offer blocks downwards when computed, not only when evicted
    bool write_through_disk = true;

    uint32_t threads = 0;         // resolved: never 0
    uint32_t context_tokens = 0;  // 0: the model's
    uint32_t step_tokens = 0;
    uint32_t max_running = 0;
    uint32_t max_queue = 0;
    IsaChoice isa = IsaChoice::automatic;

    int64_t request_timeout_ns = 0;
    int64_t drain_timeout_ns = 0;
    uint64_t body_limit_bytes = 0;
    uint64_t header_limit_bytes = 0;

    log::Level log_level = log::Level::info;
    bool log_json = false;
};

// Static storage; the row order is that of help and reference. "config" is the configuration file.
OptionTable serve_option_table();

// Checks what no single row can: sizes against `machine_bytes` (machine_memory_bytes()), a key off
// loopback, disk and key syntax. invalid with every problem, one a line, naming remedies.
// REQUIRES: `config` was loaded with serve_option_table(). Reads the API key file, if one is named.
// `command` is whose options they are, for messages.
Result<ServeOptions> serve_options(const Config& config, uint64_t machine_bytes,
                                   std::string_view command = "serve");

// The file named by flag or QUIRE_CONFIG, else nothing; for filling ConfigSources before load().
std::string config_file_name(const std::vector<ConfigEntry>& flags,
                             const std::vector<ConfigEntry>& environment);

// "DIR" or "DIR:64GiB". What follows the last colon is a size, unless it holds a '/': a folder
// named "a:b" is written "a:b/" or with its size. invalid names the remedy.
struct DiskOption {
    std::string path;
    uint64_t bytes = 0;
};
inline constexpr uint64_t kDefaultDiskBytes = uint64_t{64} << 30;
inline constexpr uint64_t kMinDiskBytes = uint64_t{256} << 20;
Result<DiskOption> parse_disk_option(std::string_view text);

// "KEY=TENANT", or "KEY" for the tenant "default". Tenants are 1 to 64 of a-z A-Z 0-9 . _ -
Result<ApiKeyOption> parse_api_key_option(std::string_view text);

bool is_loopback(std::string_view host);

}  // namespace quire
