// How fast the disk tier is, beside fio with the same pattern in the same run.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace quire {

struct DiskBenchOptions {
    std::string dir;                      // scratch; files of three times total_bytes come and go
    uint64_t total_bytes = 512ull << 20;  // written and read per measurement
    std::vector<uint64_t> slab_bytes = {1ull << 20, 8ull << 20};
    int repeats = 5;  // interleaved with the reference; medians are reported
    uint32_t depth = 16;
    std::function<void(const std::string& line)> progress;  // may be empty
};

struct DiskBenchRow {
    std::string what;          // "G3 write, 1 MiB slabs"
    double measured_gb_s = 0;  // 10^9 bytes a second
    double reference_gb_s = 0;
    double ratio = 0;  // the median of the runs' own ratios
    double bar = 0.9;
    std::string reference;  // "fio", or what stood in for it
};

// Writes, then reads back, `total_bytes` of slabs through a fresh store, verification included.
Result<std::vector<DiskBenchRow>> run_disk_bench(const DiskBenchOptions& options);

}  // namespace quire
