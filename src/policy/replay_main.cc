// quire_policy_replay [TRACE.jsonl...]: hit rates of every eviction policy at several capacities.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "policy/replay.h"

namespace {

constexpr double kShares[] = {0.005, 0.01, 0.02, 0.05, 0.10, 0.20, 0.40};

void print_table(const std::string& name, const quire::Trace& trace) {
    std::printf("%s: %zu requests, %llu block references, %u distinct\n", name.c_str(),
                trace.requests.size(), static_cast<unsigned long long>(trace.references),
                trace.distinct_blocks);
    std::printf("%-10s", "capacity");
    for (const auto& row : quire::eviction_table()) std::printf(" %11s", row.name.data());
    std::printf("\n");
    std::vector<double> seconds(quire::eviction_table().size());
    uint64_t references = 0;
    for (const double share : kShares) {
        std::printf("%8.1f %%", share * 100);
        const auto capacity = static_cast<uint32_t>(share * trace.distinct_blocks);
        for (size_t p = 0; p < quire::eviction_table().size(); ++p) {
            const auto start = std::chrono::steady_clock::now();
            const auto result = quire::replay(trace, quire::eviction_table()[p], capacity);
            seconds[p] +=
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
            std::printf(" %11.3f", result.hit_rate());
        }
        references += trace.references;
        std::printf("\n");
    }
    std::printf("%-10s", "ns/block");
    for (const double s : seconds)
        std::printf(" %11.0f", s * 1e9 / static_cast<double>(references));
    std::printf("\n\n");
}

}  // namespace

int main(int argc, char** argv) {
    int failed = 0;
    for (int i = 1; i < argc; ++i) {
        std::ifstream file(argv[i], std::ios::binary);
        if (!file) {
            std::fprintf(stderr,
                         "quire_policy_replay: cannot read '%s'; give the path of a JSONL trace\n",
                         argv[i]);
            failed = 1;
            continue;
        }
        std::ostringstream text;
        text << file.rdbuf();
        const auto trace = quire::parse_mooncake(text.str());
        if (!trace.ok()) {
            std::fprintf(stderr, "quire_policy_replay: %s: %s\n", argv[i],
                         trace.error().message.c_str());
            failed = 1;
            continue;
        }
        print_table(argv[i], *trace);
    }
    if (argc == 1) {
        std::printf("No trace given; replaying the built-in synthetic one.\n");
        print_table("synthetic", quire::synthetic_trace(4000, 1));
    }
    return failed;
}
