// llama.cpp's answers over its own cache, teacher-forced, as `llama-perplexity` computes them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "core/types.h"

struct llama_context;
struct llama_model;

namespace quire::bench {

// One text over a cache of one type. Not thread-safe.
class LlamaCache {
 public:
    // `type`: "f16" or "q8_0", of K and V; flash attention on. Room for `tokens`.
    static Result<std::unique_ptr<LlamaCache>> open(const std::string& model, const char* type,
                                                    uint32_t tokens, uint32_t threads);
    ~LlamaCache();
    LlamaCache(const LlamaCache&) = delete;
    LlamaCache& operator=(const LlamaCache&) = delete;

    // The next tokens of the text, kBatchTokens at most; their logits, valid until the next call.
    static constexpr uint32_t kBatchTokens = 64;
    Result<std::span<const float>> step(TokenSpan tokens);

 private:
    LlamaCache() = default;

    llama_model* model_ = nullptr;
    llama_context* context_ = nullptr;
    int32_t position_ = 0;
};

}  // namespace quire::bench
