#include "index/index_bench.h"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

#include <time.h>

#include "index/flat_map.h"
#include "index/prefix_index.h"

namespace quire {
namespace {

int64_t now_ns(clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
}

double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

// How the tree came about.
enum class Shape {
    whole,  // each chain arrives at once: half of them branch off an earlier one at a random block
    grown,  // the same, but eight requests at a time grow block by block in turn, as decoding does
};

std::string_view shape_name(Shape shape) {
    return shape == Shape::whole ? "prompts" : "grown by 8 decodes";
}

struct Forest {
    uint32_t chain_blocks = 0;
    std::vector<PrefixHash> hashes;  // chain after chain
    uint64_t distinct = 0;
    size_t chains() const { return hashes.size() / chain_blocks; }
    std::span<const PrefixHash> chain(size_t i) const {
        return std::span(hashes).subspan(i * chain_blocks, chain_blocks);
    }
};

Forest make_forest(uint32_t blocks, uint32_t chain_blocks, uint64_t seed) {
    std::mt19937_64 rng(seed);
    Forest forest;
    forest.chain_blocks = chain_blocks;
    while (forest.distinct + chain_blocks <= blocks) {
        uint32_t shared = 0;
        if (forest.chains() > 0 && rng() % 2 == 0) {
            const auto from = forest.chain(rng() % forest.chains());
            shared = static_cast<uint32_t>(rng() % chain_blocks);
            const std::vector<PrefixHash> copy(from.begin(), from.begin() + shared);
            forest.hashes.insert(forest.hashes.end(), copy.begin(), copy.end());
        }
        for (uint32_t i = shared; i < chain_blocks; ++i) {
            forest.hashes.push_back({{rng(), rng()}});
        }
        forest.distinct += chain_blocks - shared;
    }
    return forest;
}

Status insert_forest(const Forest& forest, Shape shape, PrefixIndex& index) {
    std::vector<BlockIndex> out(forest.chain_blocks);
    if (shape == Shape::whole) {
        for (size_t c = 0; c < forest.chains(); ++c) {
            QUIRE_TRY(index.insert(forest.chain(c), 0, false, out));
        }
        return {};
    }
    constexpr size_t kTogether = 8;
    for (size_t first = 0; first < forest.chains(); first += kTogether) {
        const size_t end = std::min(first + kTogether, forest.chains());
        for (uint32_t n = 1; n <= forest.chain_blocks; ++n) {
            for (size_t c = first; c < end; ++c) {
                QUIRE_TRY(index.insert(forest.chain(c).first(n), 0, false, out));
            }
        }
    }
    return {};
}

struct LookupTimes {
    std::vector<double> index_ns, plain_ns, ahead_ns;  // a block, one of each a round
    double p99_ns = 0;                                 // of one whole lookup, wall clock
    bool correct = true;

    static double ratio(std::vector<double> theirs, const std::vector<double>& ours) {
        for (size_t i = 0; i < theirs.size(); ++i) theirs[i] /= ours[i];
        return median(std::move(theirs));
    }
};

// Runs `walk` over the chosen chains; CPU nanoseconds a block. Queries are copied to a small buffer
// before the clock starts, batch by batch: a caller has just hashed its prompt and holds it in
// cache.
template <typename Walk>
double time_lookups(const Forest& forest, std::span<const uint32_t> order, bool& correct,
                    Walk walk) {
    constexpr size_t kBatch = 64;
    const size_t n = forest.chain_blocks;
    std::vector<PrefixHash> queries(kBatch * n);
    int64_t total = 0;
    for (size_t first = 0; first < order.size(); first += kBatch) {
        const size_t count = std::min(kBatch, order.size() - first);
        for (size_t i = 0; i < count; ++i) {
            const auto chain = forest.chain(order[first + i]);
            std::copy(chain.begin(), chain.end(), queries.begin() + static_cast<ptrdiff_t>(i * n));
        }
        const int64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
        uint64_t found = 0;
        for (size_t i = 0; i < count; ++i) found += walk(std::span(queries).subspan(i * n, n));
        total += now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        correct &= found == count * n;
    }
    return static_cast<double>(total) /
           (static_cast<double>(order.size()) * static_cast<double>(n));
}

LookupTimes compare_lookups(const Forest& forest, const PrefixIndex& index, const FlatMap& map,
                            const IndexBenchOptions& options) {
    std::mt19937_64 rng(options.seed + 1);
    LookupTimes times;
    std::vector<BlockIndex> out(forest.chain_blocks);
    const auto find = [&](std::span<const PrefixHash> chain) { return index.find(chain, out); };
    const auto plain = [&](std::span<const PrefixHash> chain) { return map.walk<0>(chain, out); };
    const auto ahead = [&](std::span<const PrefixHash> chain) { return map.walk<12>(chain, out); };
    std::vector<uint32_t> order(options.lookups);
    for (int round = -1; round < options.rounds; ++round) {  // round -1 warms up
        for (uint32_t& c : order) c = static_cast<uint32_t>(rng() % forest.chains());
        const double index_ns = time_lookups(forest, order, times.correct, find);
        const double plain_ns = time_lookups(forest, order, times.correct, plain);
        const double ahead_ns = time_lookups(forest, order, times.correct, ahead);
        if (round < 0) continue;
        times.index_ns.push_back(index_ns);
        times.plain_ns.push_back(plain_ns);
        times.ahead_ns.push_back(ahead_ns);
    }
    std::vector<int64_t> each;
    for (const uint32_t c : order) {
        const int64_t start = now_ns(CLOCK_MONOTONIC);
        times.correct &= find(forest.chain(c)) == forest.chain_blocks;
        each.push_back(now_ns(CLOCK_MONOTONIC) - start);
    }
    std::sort(each.begin(), each.end());
    times.p99_ns = static_cast<double>(each[each.size() * 99 / 100]);
    return times;
}

IndexOptions bench_index_options(uint32_t blocks) {
    IndexOptions options;
    options.max_blocks = blocks;
    options.groups = {{KvKind::full, 0}, {KvKind::window, 512}};
    return options;
}

Result<std::vector<IndexBenchRow>> bench_shape(const Forest& forest, uint32_t blocks, Shape shape,
                                               const IndexBenchOptions& options) {
    auto created = PrefixIndex::create(bench_index_options(blocks));
    if (!created.ok()) return created.error();
    PrefixIndex& index = **created;
    const int64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
    QUIRE_TRY(insert_forest(forest, shape, index));
    const auto insert_ns = static_cast<double>(now_ns(CLOCK_THREAD_CPUTIME_ID) - start);

    auto map = FlatMap::create(blocks);
    if (!map.ok()) return map.error();
    const int64_t map_start = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (size_t i = 0; i < forest.hashes.size(); ++i) {
        map->insert(forest.hashes[i], static_cast<uint32_t>(i));
    }
    const auto map_ns = static_cast<double>(now_ns(CLOCK_THREAD_CPUTIME_ID) - map_start);
    const LookupTimes times = compare_lookups(forest, index, *map, options);

    const std::string label =
        ", " + std::to_string(blocks / 1'000'000) + " M blocks, " + std::string(shape_name(shape));
    std::vector<IndexBenchRow> rows;
    const double ops = 1e3 / median(times.index_ns);
    rows.push_back({.what = "lookup M block ops/s over a flat map" + label,
                    .measured = ops,
                    .reference = 1e3 / median(times.plain_ns),
                    .ratio = LookupTimes::ratio(times.plain_ns, times.index_ns),
                    .bar = 2});
    rows.push_back({.what = "the same, the map prefetching" + label,
                    .measured = ops,
                    .reference = 1e3 / median(times.ahead_ns),
                    .ratio = LookupTimes::ratio(times.ahead_ns, times.index_ns),
                    .bar = blocks <= 1'000'000 ? 2.0 : 0.0});
    for (IndexBenchRow& row : rows) row.ok = times.correct && row.ratio >= row.bar;
    const IndexStats stats = index.stats();
    const double bytes =
        static_cast<double>(stats.memory_bytes) / static_cast<double>(stats.blocks);
    const double map_bytes =
        static_cast<double>(map->memory_bytes()) / static_cast<double>(stats.blocks);
    rows.push_back({.what = "bytes a block" + label,
                    .measured = bytes,
                    .reference = map_bytes,
                    .ratio = bytes / map_bytes,
                    .bar = 128,
                    .at_most = true,
                    .ok = bytes <= 128});
    rows.push_back({.what = "p99 ns of one lookup" + label, .measured = times.p99_ns});
    const auto distinct = static_cast<double>(forest.distinct);
    rows.push_back({.what = "insert M new blocks/s" + label,
                    .measured = distinct * 1e3 / insert_ns,
                    .reference = distinct * 1e3 / map_ns,
                    .ratio = map_ns / insert_ns});
    return rows;
}

}  // namespace

Result<std::vector<IndexBenchRow>> run_index_bench(const IndexBenchOptions& options) {
    if (options.chain_blocks == 0 || options.rounds < 1 || options.lookups == 0) {
        return make_error(Code::invalid, "index bench: sizes and rounds must be positive");
    }
    std::vector<IndexBenchRow> rows;
    for (const uint32_t blocks : options.blocks) {
        if (blocks < options.chain_blocks) {
            return make_error(Code::invalid, "index bench: fewer blocks than one chain has");
        }
        const Forest forest = make_forest(blocks, options.chain_blocks, options.seed);
        for (const Shape shape : {Shape::whole, Shape::grown}) {
            auto part = bench_shape(forest, blocks, shape, options);
            if (!part.ok()) return part.error();
            rows.insert(rows.end(), part->begin(), part->end());
        }
    }
    return rows;
}

}  // namespace quire
