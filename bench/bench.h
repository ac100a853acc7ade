// The benches behind `quire bench NAME`: one row each, all ending in the same table of bars.
//
// To add one: a file in cases/ with one function, and a row in table.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/bars.h"
#include "bench/places.h"
#include "kernels/attention.h"

namespace quire::bench {

struct BenchOptions {
    std::vector<BenchModel> models;
    uint32_t threads = 0;  // that compute; 0: every core
    uint32_t repeats = 5;  // of each thing measured; medians are reported
    const kernels::AttentionOps* attention = nullptr;  // whose instruction set our products use too
    bool quick = false;          // fewer and smaller: does it run at all; bars are not meaningful
    std::string scratch_dir;     // for disk tiers and ceilings
    std::string kv_codec;        // of our engine's pages; empty: 16 bit
    std::string llama_bench;     // llama-bench; llama-batched-bench lies beside it
    std::string only;            // engine: rows whose name contains it; empty: all
    std::string trace;           // policy: a JSONL file with hash_ids
    int64_t minutes = 0;         // memory: how long; 0: by requests
    uint64_t requests = 20'000;  // memory
    std::function<void(std::string_view)> say;  // one line of progress; may be empty

    void progress(std::string_view line) const {
        if (say) say(line);
    }
};

struct BenchCase {
    std::string_view name;
    std::string_view about;
    bool needs_models;
    // Rows in the table's order. An error means that nothing could be measured.
    Result<std::vector<BarRow>> (*run)(const BenchOptions& options);
};

std::span<const BenchCase> bench_table();
// nullptr for an unknown name.
const BenchCase* find_bench(std::string_view name);

}  // namespace quire::bench
