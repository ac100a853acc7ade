// quire_attention_bench [repeats] [threads] [isa]: attention of the two test models against the
// machine's ceilings.
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "kernels/bench/attention_bench.h"

namespace quire::kernels::bench {
namespace {

void print_decode(const AttentionOps& ops, const AttentionCase& c, int threads, int repeats) {
    const auto result = measure_decode(ops, c, threads, repeats);
    if (!result.ok()) return;
    const DecodeResult& r = result.value();
    // tidy: allow(printf): this program's output
    std::printf(
        "%-7s %d thr decode  %-20s %7.3f ms  read %7.3f ms  in L2 %7.3f ms  ratio %.2f"
        "  %5.1f GB/s %6.1f GFLOP/s\n",
        ops.name, threads, c.name, r.kernel_s * 1e3, r.read_s * 1e3, r.in_cache_s * 1e3, r.ratio(),
        r.bytes / r.kernel_s * 1e-9, r.flop / r.kernel_s * 1e-9);
}

void print_prefill(const AttentionOps& ops, const AttentionCase& c, int32_t rows, int threads,
                   int repeats) {
    const auto result = measure_prefill(ops, c, rows, threads, repeats);
    if (!result.ok()) return;
    const PrefillResult& r = result.value();
    // tidy: allow(printf): this program's output
    std::printf("%-7s %d thr prefill %-20s %4d rows %8.3f ms  %6.1f GFLOP/s of %6.1f: %.0f %%\n",
                ops.name, threads, c.name, rows, r.kernel_s * 1e3, r.flop / r.kernel_s * 1e-9,
                r.peak_flop_s * 1e-9, 100 * r.share_of_peak());
}

void print_codes(const AttentionOps& ops, const AttentionCase& c, int32_t rows, int threads,
                 int repeats) {
    static constexpr Widths kWidths[] = {{8, 8}, {6, 6}, {6, 4}, {5, 4}, {4, 4}, {4, 3}, {3, 2}};
    const auto result = measure_codes(ops, c, rows, kWidths, threads, repeats);
    if (!result.ok()) return;
    // tidy: allow(printf): this program's output
    std::printf("%-7s %d thr codes   %-20s %4d rows  raw16 %.3f ms; over it:", ops.name, threads,
                c.name, rows, result.value().exact_s * 1e3);
    for (size_t i = 0; i < std::size(kWidths); ++i)
        // tidy: allow(printf): this program's output
        std::printf(" k%dv%d %.2f", kWidths[i].k_bits, kWidths[i].v_bits,
                    result.value().codes_s[i] / result.value().exact_s);
    // tidy: allow(printf): this program's output
    std::printf("\n");
}

}  // namespace
}  // namespace quire::kernels::bench

int main(int argc, char** argv) {
    using namespace quire::kernels;
    const int repeats = argc > 1 ? std::atoi(argv[1]) : 9;
    const int threads = argc > 2 ? std::atoi(argv[2]) : 2;
    const std::string_view only = argc > 3 ? argv[3] : "";
    for (const AttentionOps& ops : attention_table()) {
        if (ops.isa == Isa::ref || !ops.cpu_has_it() || (!only.empty() && only != ops.name))
            continue;
        for (const auto& c : {bench::kSmolLm2, bench::kGemma3Window, bench::kGemma3Full})
            bench::print_decode(ops, c, threads, repeats);
        for (bench::AttentionCase c : {bench::kSmolLm2, bench::kGemma3Window, bench::kGemma3Full}) {
            c.layers = 1;
            bench::print_prefill(ops, c, 512, threads, repeats);
        }
        for (bench::AttentionCase c : {bench::kSmolLm2, bench::kGemma3Full}) {
            c.n_keys = 8192;
            bench::print_codes(ops, c, 1, threads, repeats);
            c.layers = 1;
            bench::print_codes(ops, c, 256, threads, repeats);
        }
    }
    return 0;
}
