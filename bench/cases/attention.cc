// Decode attention alone: over the larger of a plain read of the same pages and the same arithmetic
// on pages that sit in L2.
#include <fmt/format.h>

#include "bench/cases/cases.h"
#include "kernels/bench/attention_bench.h"

namespace quire::bench {
namespace {

constexpr double kAttentionBar = 1.35;
constexpr int kRepeatsMin = 9;

}  // namespace

Result<std::vector<BarRow>> run_attention(const BenchOptions& options) {
    const kernels::AttentionOps& ops = *options.attention;
    if (ops.isa == kernels::Isa::ref)
        return make_error(Code::unsupported, "this CPU has neither AVX2 nor AVX-512");
    const int repeats =
        options.quick ? 3 : std::max(kRepeatsMin, static_cast<int>(options.repeats));
    std::vector<BarRow> rows;
    for (const auto& c :
         {kernels::bench::kSmolLm2, kernels::bench::kGemma3Window, kernels::bench::kGemma3Full}) {
        options.progress(fmt::format("decode attention of {}", c.name));
        auto result =
            kernels::bench::measure_decode(ops, c, static_cast<int>(options.threads), repeats);
        if (!result.ok()) return result.error();
        const double limit_s = std::max(result->read_s, result->in_cache_s);
        const std::string what =
            fmt::format("decode attention, {} keys, {} ({})", c.n_keys, c.name, ops.name);
        // The bar is about three queries a KV head; the others are for information.
        const bool judged = c.n_heads == 3 * c.n_kv_heads;
        rows.push_back(judged ? ratio_row(what, "s", result->kernel_s, limit_s, Comparison::at_most,
                                          kAttentionBar)
                              : info_row(what, "s", result->kernel_s, limit_s));
        rows.back().note = fmt::format("limited by {}", result->read_s > result->in_cache_s
                                                            ? "a plain read of the pages"
                                                            : "the same arithmetic in L2");
    }
    return rows;
}

}  // namespace quire::bench
