// The functions behind the rows of bench_table(), one file each. Private to bench/.
#pragma once

#include <vector>

#include "bench/bench.h"

namespace quire::bench {

Result<std::vector<BarRow>> run_ttft(const BenchOptions& options);
Result<std::vector<BarRow>> run_engine(const BenchOptions& options);
Result<std::vector<BarRow>> run_overhead(const BenchOptions& options);
Result<std::vector<BarRow>> run_tier(const BenchOptions& options);
Result<std::vector<BarRow>> run_index(const BenchOptions& options);
Result<std::vector<BarRow>> run_attention(const BenchOptions& options);
Result<std::vector<BarRow>> run_codec(const BenchOptions& options);
Result<std::vector<BarRow>> run_cold(const BenchOptions& options);
Result<std::vector<BarRow>> run_served(const BenchOptions& options);
Result<std::vector<BarRow>> run_memory(const BenchOptions& options);
Result<std::vector<BarRow>> run_policy(const BenchOptions& options);

}  // namespace quire::bench
