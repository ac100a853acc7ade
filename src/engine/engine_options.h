// What an engine is told at start. Values only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/io.h"
#include "base/metrics.h"
#include "core/kv_layout.h"
#include "kernels/attention.h"

namespace quire {

// When a step may begin with pages that are still being loaded.
enum class LoadOverlap : uint8_t {
    when_it_pays,  // policy/overlap.h
    always,        // at once, whatever it costs; for tests
    never,         // when all have landed
};

struct EngineOptions {
    std::string model_path;
    std::string model_name;  // as clients name it; empty: the file's name without .gguf

    bool cache = true;  // false: every prompt is computed, nothing is kept
    uint64_t kv_memory_bytes = uint64_t{2} << 30;    // G1
    uint64_t host_memory_bytes = uint64_t{4} << 30;  // G2; 0: none
    std::string disk_dir;                            // G3; empty: none
    uint64_t disk_bytes = uint64_t{64} << 30;
    std::string evict = "lru";
    std::string admit_host = "all";
    std::string admit_disk = "all";
    bool write_through_host = true;  // false: G2 gets only what G1 gives up
    bool write_through_disk = true;  // false: G3 gets only what the tier above gives up

    int threads = 0;              // 0: one per core
    uint32_t context_tokens = 0;  // 0: the model's own limit
    uint32_t block_tokens = 16;   // with a codec: 64, whatever is said here
    std::string kv_codec;         // of KV pages, in every tier; "" or "raw16": none
    // Further ones, that a request may ask for.
    std::vector<std::string> kv_codecs_allowed;
    uint32_t kv_sink_tokens = 64;          // stay 16 bit with a codec
    uint32_t kv_recent_tokens = 64;        // so do a query's own span of so many
    std::vector<uint32_t> kv_skip_layers;  // and these, by number
    Element kv_element = Element::f16;     // of what is 16 bit
    // A file with the widths of codec "schedule"; empty: the sidecar's.
    std::string kv_schedule;
    std::string kv_sidecar;  // of what codecs learned of the model; empty: none
    // Where kv_sidecar is missing, it is learned from so many tokens, for the next start; 0: it
    // must be there.
    uint32_t kv_learn_tokens = 0;
    std::string kv_codec_host;       // how slabs are packed in G2; "" or "none": they are not
    std::string kv_codec_cold;       // the same on disk
    uint32_t unpack_threads = 2;     // that unpack for requests, of all tiers together
    uint32_t cold_cpu_percent = 50;  // of a core, that all packing takes at most
    uint32_t step_tokens = 512;      // tokens computed in one step, all requests together
    uint32_t max_running = 64;
    uint32_t max_queue = 1024;
    LoadOverlap overlap = LoadOverlap::when_it_pays;
    int64_t request_timeout_ns = int64_t{600} * 1'000'000'000;
    const kernels::AttentionOps* attention = nullptr;  // nullptr: the fastest of this CPU
    const Clock* clock = &system_clock();
    IoEngine* io = nullptr;      // of the disk tier; outlives the engine; nullptr: one of its own
    Metrics* metrics = nullptr;  // histograms of steps, loads and block ages; outlives the engine
};

}  // namespace quire
