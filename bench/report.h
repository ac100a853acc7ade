// What a bench run says about itself: the bench, the machine, its bars; as text and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/bars.h"
#include "kernels/attention.h"

namespace quire::bench {

struct MachineInfo {
    std::string cpu;       // "Intel(R) Xeon(R) Processor"
    std::string isa;       // of the attention kernels: "avx512"
    uint32_t threads = 0;  // that the benches compute with
    uint64_t memory_bytes = 0;
    std::string disk;  // file system and device under the scratch folder
};

// `scratch_dir` need not exist; the nearest folder above it is described.
MachineInfo describe_machine(const std::string& scratch_dir, uint32_t threads,
                             const kernels::AttentionOps& ops);

struct BenchReport {
    std::string bench;
    MachineInfo machine;
    std::vector<BarRow> rows;
};

// A line about the machine, then the table.
std::string report_text(const BenchReport& report);
// {"bench":..., "machine":{...}, "ok":..., "bars":[...]}, with a newline. Numbers that are not
// finite are null.
std::string report_json(const BenchReport& report);

}  // namespace quire::bench
