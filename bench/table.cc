#include <algorithm>

#include "bench/cases/cases.h"

namespace quire::bench {
namespace {

constexpr BenchCase kTable[] = {
    {"ttft", "time to first token: cold, and hits in G1, G2, and G3 after a restart", true,
     run_ttft},
    {"engine", "prefill and decode over llama.cpp on the same files and threads", true, run_engine},
    {"overhead", "cold time to first token: every tier on over cache off", true, run_overhead},
    {"tier", "the disk tier's reads and writes over fio's", false, run_tier},
    {"index", "prefix index over a chain walk in a flat hash map", false, run_index},
#ifdef QUIRE_ATTENTION_BENCH
    {"attention", "decode attention alone over what memory and arithmetic allow", false,
     run_attention},
#endif
    {"codec", "codecs on one core: over a plain copy, zstd, and computing tokens anew", true,
     run_codec},
    {"cold", "first token over a thin link: blocks packed on disk over blocks as they are", true,
     run_cold},
    {"served", "what a codec does to answers over what llama.cpp's q8_0 cache does to its own",
     true, run_served},
    {"memory", "resident memory under a long mixed load", true, run_memory},
    {"policy", "eviction policies beside each other on a trace", false, run_policy},
};

}  // namespace

std::span<const BenchCase> bench_table() {
    return kTable;
}

const BenchCase* find_bench(std::string_view name) {
    const auto at = std::find_if(std::begin(kTable), std::end(kTable),
                                 [&](const BenchCase& row) { return row.name == name; });
    return at == std::end(kTable) ? nullptr : at;
}

}  // namespace quire::bench
