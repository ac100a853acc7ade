// quire_index_bench [blocks...]: the index bench alone, without the rest of Quire.
#include <cstdio>
#include <cstdlib>

#include "index/index_bench.h"

int main(int argc, char** argv) {
    quire::IndexBenchOptions options;
    if (argc > 1) options.blocks.clear();
    for (int i = 1; i < argc; ++i) {
        const long blocks = std::strtol(argv[i], nullptr, 10);
        if (blocks <= 0 || blocks > 1'000'000'000) {
            std::fprintf(stderr, "quire_index_bench: '%s' is not a count of blocks\n", argv[i]);
            return 2;
        }
        options.blocks.push_back(static_cast<uint32_t>(blocks));
    }
    const auto rows = quire::run_index_bench(options);
    if (!rows.ok()) {
        std::fprintf(stderr, "quire_index_bench: %s\n", rows.error().message.c_str());
        return 1;
    }
    bool ok = true;
    std::printf("%-62s %10s %10s %7s %6s ok\n", "what", "measured", "reference", "ratio", "bar");
    for (const auto& row : *rows) {
        std::printf("%-62s %10.1f %10.1f %7.2f %6.1f %s\n", row.what.c_str(), row.measured,
                    row.reference, row.ratio, row.bar, row.ok ? "yes" : "NO");
        ok &= row.ok;
    }
    return ok ? 0 : 1;
}
