// The index bench of src/index as bars.
#include "bench/cases/cases.h"
#include "index/index_bench.h"

namespace quire::bench {

Result<std::vector<BarRow>> run_index(const BenchOptions& options) {
    IndexBenchOptions index;
    if (options.quick) {
        index.blocks = {100'000};
        index.rounds = 3;
    } else {
        index.rounds = std::max(index.rounds, static_cast<int>(options.repeats));
    }
    options.progress("building the index and a flat hash map of the same chains");
    auto measured = run_index_bench(index);
    if (!measured.ok()) return measured.error();
    std::vector<BarRow> rows;
    for (const IndexBenchRow& row : *measured) {
        BarRow& bar = rows.emplace_back();
        bar.what = row.what;
        bar.measured = row.measured;
        if (row.reference > 0) bar.reference = row.reference;
        // at_most judges the measured value itself, which a ratio would hide.
        if (row.ratio > 0 && !row.at_most) bar.ratio = row.ratio;
        if (row.bar > 0) bar.bar = row.bar;
        bar.comparison = row.at_most ? Comparison::at_most : Comparison::at_least;
        bar.ok = row.ok;
    }
    return rows;
}

}  // namespace quire::bench
