// Attention alone. Decode: over the larger of a plain read of the same pages and the same
// arithmetic on pages that sit in L2. Over compressed pages, one core: over the same over 16-bit
// pages.
#include <span>

#include <fmt/format.h>

#include "bench/cases/cases.h"
#include "kernels/bench/attention_bench.h"

namespace quire::bench {
namespace {

constexpr double kAttentionBar = 1.35;
constexpr int kRepeatsMin = 9;

struct CodesBar {
    kernels::bench::Widths widths;
    double bar;  // 0: none
};
constexpr CodesBar kDecodeBars[] = {
    {{8, 8}, 0.75}, {{6, 4}, 0.65}, {{4, 3}, 0.6}, {{3, 2}, 0.6}, {{6, 4, 8}, 0}};
constexpr CodesBar kPrefillBars[] = {{{8, 8}, 1.15}, {{6, 4}, 1.15}};
constexpr int32_t kCodesKeys = 8192;
constexpr int32_t kCodesPrefillRows = 256;

Status add_codes_rows(const BenchOptions& options, std::span<const CodesBar> bars, int32_t n_rows,
                      int repeats, std::vector<BarRow>& rows) {
    kernels::bench::AttentionCase c = kernels::bench::kSmolLm2;
    c.n_keys = kCodesKeys;
    if (n_rows > 1) c.layers = 1;
    std::vector<kernels::bench::Widths> widths;
    for (const CodesBar& b : bars) widths.push_back(b.widths);
    auto result = kernels::bench::measure_codes(*options.attention, c, n_rows, widths, 1, repeats);
    if (!result.ok()) return result.error();
    for (size_t i = 0; i < bars.size(); ++i) {
        const std::string turned =
            widths[i].pairs > 0 ? fmt::format(" with {} turned pairs", widths[i].pairs) : "";
        const std::string what = fmt::format(
            "{} attention, {} keys as k{}v{}{} over 16 bit ({})", n_rows > 1 ? "prefill" : "decode",
            c.n_keys, widths[i].k_bits, widths[i].v_bits, turned, options.attention->name);
        const double codes_s = result->codes_s[i], exact_s = result->exact_s;
        rows.push_back(bars[i].bar > 0 ? ratio_row(what, "s", codes_s, exact_s, Comparison::at_most,
                                                   bars[i].bar)
                                       : info_row(what, "s", codes_s, exact_s));
    }
    return {};
}

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
    options.progress("attention over compressed pages");
    if (Status s = add_codes_rows(options, kDecodeBars, 1, repeats, rows); !s.ok())
        return s.error();
    if (Status s = add_codes_rows(options, kPrefillBars, kCodesPrefillRows, repeats, rows); !s.ok())
        return s.error();
    return rows;
}

}  // namespace quire::bench
