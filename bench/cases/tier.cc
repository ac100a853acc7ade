// The disk tier beside fio with the same pattern.
#include "bench/cases/cases.h"
#include "tier/disk/disk_bench.h"

namespace quire::bench {

Result<std::vector<BarRow>> run_tier(const BenchOptions& options) {
    auto scratch = ScratchFolder::create(options.scratch_dir);
    if (!scratch.ok()) return scratch.error();
    DiskBenchOptions disk;
    disk.dir = scratch->path();
    disk.repeats = static_cast<int>(options.repeats);
    if (options.quick) disk.total_bytes = uint64_t{64} << 20;
    disk.progress = [&](const std::string& line) { options.progress(line); };
    auto measured = run_disk_bench(disk);
    if (!measured.ok()) return measured.error();
    std::vector<BarRow> rows;
    for (const DiskBenchRow& row : *measured) {
        rows.push_back(paired_row(row.what, "GB/s", row.measured_gb_s, row.reference_gb_s,
                                  row.ratio, Comparison::at_least, row.bar));
        if (row.reference != "fio") rows.back().note = "the reference is " + row.reference;
    }
    return rows;
}

}  // namespace quire::bench
