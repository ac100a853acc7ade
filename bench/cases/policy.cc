// Eviction policies beside each other on a trace: the share of prompt blocks that would be hits.
#include <filesystem>

#include <fmt/format.h>

#include "base/regular_file.h"
#include "bench/cases/cases.h"
#include "policy/replay.h"

namespace fs = std::filesystem;

namespace quire::bench {
namespace {

// Of the distinct blocks of the trace.
constexpr double kCapacityShares[] = {0.01, 0.05, 0.2};
constexpr uint32_t kSyntheticRequests = 10'000;
constexpr uint64_t kSyntheticSeed = 1;
constexpr uint64_t kTraceBytesMax = uint64_t{1} << 30;

// The trace asked for, else the first of the cache folder's traces/, in order of name; may be
// empty.
std::string find_trace(const BenchOptions& options) {
    if (!options.trace.empty()) return options.trace;
    std::string found;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(cache_folder() + "/traces", error))
        if (entry.path().extension() == ".jsonl" && (found.empty() || entry.path() < found))
            found = entry.path();
    return found;
}

Result<Trace> load_trace(const std::string& path) {
    const auto text = read_regular_file(path, "the trace", kTraceBytesMax);
    if (!text.ok()) return text.error();
    auto trace = parse_mooncake(*text);
    if (!trace.ok()) return make_error(trace.code(), path + ": " + trace.error().message);
    return trace;
}

}  // namespace

Result<std::vector<BarRow>> run_policy(const BenchOptions& options) {
    const std::string path = find_trace(options);
    auto trace =
        path.empty() ? synthetic_trace(kSyntheticRequests, kSyntheticSeed) : load_trace(path);
    if (!trace.ok()) return trace.error();
    const EvictionRow& lru = *find_eviction("lru");
    const double most = 100 * replay(*trace, lru, trace->distinct_blocks + 1).hit_rate();
    std::vector<BarRow> rows;
    for (double share : kCapacityShares) {
        const auto capacity = static_cast<uint32_t>(share * trace->distinct_blocks) + 1;
        options.progress(
            fmt::format("{} requests, {} blocks of room", trace->requests.size(), capacity));
        for (const EvictionRow& policy : eviction_table())
            rows.push_back(info_row(
                fmt::format("{}: hits, room for {:.0f} % of the blocks", policy.name, share * 100),
                "%", 100 * replay(*trace, policy, capacity).hit_rate(), most));
    }
    rows.back().note =
        path.empty()
            ? "a synthetic trace, as there is none in " + cache_folder() +
                  "/traces and no --trace FILE; the reference is room for everything"
            : fs::path(path).filename().string() + "; the reference is room for everything";
    return rows;
}

}  // namespace quire::bench
