// quire codec transcode: a cache directory into another one whose slabs are packed otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/io.h"
#include "base/result.h"

namespace quire::commands {

struct TranscodeFlags {
    std::string from_dir, to_dir;
    std::string to = "none";    // packing of what is written
    std::string from = "none";  // ec:BITS, when what is read may be packed so
    std::string model;          // of ec; the rest says how its server writes pages
    std::string kv_codec;
    uint32_t kv_sinks = 64;
    uint32_t kv_recent_tokens = 64;
    std::vector<uint32_t> kv_skip_layers;
    std::string kv_dtype = "f16";
    uint32_t block_tokens = 0;  // 0: what most blocks of the source have
    std::string kv_schedule;
    std::string kv_sidecar;
    bool json = false;
};

struct TranscodeReport {
    uint64_t blocks = 0;   // in the source
    uint64_t written = 0;  // of those
    uint64_t packed = 0;   // of those
    uint64_t from_bytes = 0, to_bytes = 0;
    uint32_t block_tokens = 0;  // of most
    uint64_t refused = 0;       // not readable, or not stored
    std::string first_refusal;  // why, of the first
};

// The new directory is there whole or not at all (staged_folder.h). Errors name the flag or the
// directory. busy: a server has one of them open; full, io: writing failed. `io` reads and writes
// both; null: one of its own.
Result<TranscodeReport> transcode(const TranscodeFlags& flags, IoEngine* io = nullptr);

std::string transcode_text(const TranscodeReport& report);
std::string transcode_json(const TranscodeReport& report);

}  // namespace quire::commands
