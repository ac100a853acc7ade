// The index bench: PrefixIndex beside a chain walk in a flat hash map, in the same run.
//
// Times are CPU times of the calling thread, rounds of both sides interleaved, medians reported, so
// that a busy machine disturbs little. Deterministic data from one seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire {

struct IndexBenchOptions {
    std::vector<uint32_t> blocks = {1'000'000, 10'000'000};
    uint32_t chain_blocks = 100;
    uint32_t lookups = 10'000;  // a round
    int rounds = 7;
    uint64_t seed = 1;
};

// One line of the table that every bench ends in. `bar` 0: reported, not judged.
struct IndexBenchRow {
    std::string what;
    double measured = 0;
    double reference = 0;
    double ratio = 0;  // what the bar is about, 0 if there is no reference
    double bar = 0;
    bool at_most = false;  // measured <= bar; otherwise ratio >= bar
    bool ok = true;
};

// `full` when the machine cannot hold the tables.
Result<std::vector<IndexBenchRow>> run_index_bench(const IndexBenchOptions& options);

}  // namespace quire
