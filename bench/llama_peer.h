// llama.cpp's own benches, as the peer beside our engine: the same GGUF, the same threads, flash
// attention on, one measurement a call so that the caller can take turns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace quire::bench {

class LlamaPeer {
 public:
    // `llama_bench`: the program; empty: the one of the build's own ggml. llama-batched-bench lies
    // beside it. io when it is missing, with the remedy.
    static Result<LlamaPeer> find(const std::string& llama_bench, uint32_t threads);

    // Tokens a second.
    Result<double> prefill(const std::string& model, uint32_t n_tokens) const;
    // `cache`: type of its K and V, such as f16 or q8_0.
    Result<double> decode(const std::string& model, uint32_t depth, uint32_t n_tokens,
                          const std::string& cache = "f16") const;
    // All sequences together, each `depth` tokens deep, each decoding `n_tokens`.
    Result<double> batched_decode(const std::string& model, uint32_t sequences, uint32_t depth,
                                  uint32_t n_tokens) const;

 private:
    LlamaPeer(std::string bench, uint32_t threads) : bench_(std::move(bench)), threads_(threads) {}

    std::string bench_;
    uint32_t threads_;
};

// "avg_ts" of the first result of `llama-bench -o json`; "speed_tg" of the first line of
// `llama-batched-bench --output-format jsonl`. io when there is none above zero.
Result<double> parse_llama_bench(std::string_view json);
Result<double> parse_batched_bench(std::string_view jsonl);

}  // namespace quire::bench
