// Measures attention against what the machine could do, in the same run.
//
// All times are medians over `repeats` rounds in which the things compared take turns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/attention.h"

namespace quire::kernels::bench {

struct AttentionCase {
    const char* name = "";
    int32_t layers = 1;  // of this geometry; their pages lie in one slab per block
    int32_t n_heads = 0;
    int32_t n_kv_heads = 0;
    int32_t head_dim = 0;
    int32_t window = 0;
    int32_t n_keys = 0;
    int32_t block_tokens = 16;
    Element element = Element::f16;
    // Of compressed pages, with one block of sinks and spans of 64; 0: all pages are exact.
    int32_t k_bits = 0;
    int32_t v_bits = 0;
    int32_t pairs = 0;  // of a turned mean
};

// SmolLM2-135M, and the windowed and the full layers of Gemma 3 270M, at 4,096 keys.
inline constexpr AttentionCase kSmolLm2 = {.name = "SmolLM2-135M",
                                           .layers = 30,
                                           .n_heads = 9,
                                           .n_kv_heads = 3,
                                           .head_dim = 64,
                                           .n_keys = 4096};
inline constexpr AttentionCase kGemma3Window = {.name = "Gemma-3-270M window",
                                                .layers = 15,
                                                .n_heads = 4,
                                                .n_kv_heads = 1,
                                                .head_dim = 256,
                                                .window = 512,
                                                .n_keys = 4096};
inline constexpr AttentionCase kGemma3Full = {.name = "Gemma-3-270M full",
                                              .layers = 3,
                                              .n_heads = 4,
                                              .n_kv_heads = 1,
                                              .head_dim = 256,
                                              .n_keys = 4096};

struct DecodeResult {
    double kernel_s = 0;    // one token through all layers, pages in random order
    double read_s = 0;      // a plain read of the same pages by the same threads
    double in_cache_s = 0;  // the same arithmetic on pages that sit in L2
    double bytes = 0;       // of K and V read
    double flop = 0;        // 4 * head_dim per (query head, key)
    double ratio() const { return kernel_s / (read_s > in_cache_s ? read_s : in_cache_s); }
};

struct PrefillResult {
    double kernel_s = 0;     // the last n_rows positions through all layers
    double flop = 0;         // 4 * head_dim per visible (query head, key)
    double peak_flop_s = 0;  // of plain fused multiply-adds by the same threads
    double share_of_peak() const { return flop / kernel_s / peak_flop_s; }
};

struct CodesResult {
    double exact_s = 0;           // the last n_rows positions through all layers, all pages exact
    std::vector<double> codes_s;  // the same for each pair of widths
};

struct Widths {
    int32_t k_bits = 0;
    int32_t v_bits = 0;
    int32_t pairs = 0;  // of a turned mean
};

// full when memory is short; unsupported when `ops` cannot run the case here.
Result<DecodeResult> measure_decode(const AttentionOps& ops, const AttentionCase& c, int n_threads,
                                    int repeats);
Result<PrefillResult> measure_prefill(const AttentionOps& ops, const AttentionCase& c,
                                      int32_t n_rows, int n_threads, int repeats);
Result<CodesResult> measure_codes(const AttentionOps& ops, const AttentionCase& c, int32_t n_rows,
                                  std::span<const Widths> widths, int n_threads, int repeats);

}  // namespace quire::kernels::bench
