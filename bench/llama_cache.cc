#include "bench/llama_cache.h"

#include <string_view>

#include <llama.h>

#include "base/check.h"
#include "engine/model/ggml_guard.h"

namespace quire::bench {

Result<std::unique_ptr<LlamaCache>> LlamaCache::open(const std::string& model, const char* type,
                                                     uint32_t tokens, uint32_t threads) {
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    std::unique_ptr<LlamaCache> cache(new LlamaCache);
    cache->model_ = llama_model_load_from_file(model.c_str(), llama_model_default_params());
    if (cache->model_ == nullptr) return make_error(Code::io, "llama.cpp cannot load " + model);
    llama_context_params params = llama_context_default_params();
    params.n_ctx = (tokens + 255) / 256 * 256;
    params.n_batch = params.n_ubatch = kBatchTokens;
    params.n_threads = params.n_threads_batch = static_cast<int32_t>(threads);
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    params.type_k = params.type_v =
        std::string_view(type) == "q8_0" ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
    cache->context_ = llama_init_from_model(cache->model_, params);
    if (cache->context_ == nullptr)
        return make_error(Code::unsupported,
                          "llama.cpp has no cache of type " + std::string(type) + " for " + model);
    return cache;
}

LlamaCache::~LlamaCache() {
    if (context_ != nullptr) llama_free(context_);
    if (model_ != nullptr) llama_model_free(model_);
}

Result<std::span<const float>> LlamaCache::step(TokenSpan tokens) {
    QUIRE_CHECK(tokens.size() <= kBatchTokens, "more tokens than a batch of llama.cpp's has");
    const auto n = static_cast<int32_t>(tokens.size());
    llama_batch batch = llama_batch_init(n, 0, 1);
    batch.n_tokens = n;
    for (int32_t i = 0; i < n; ++i) {
        batch.token[i] = tokens[static_cast<size_t>(i)];
        batch.pos[i] = position_ + i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    const int32_t done = llama_decode(context_, batch);
    llama_batch_free(batch);
    if (done != 0) return make_error(Code::io, "llama.cpp could not compute a batch");
    position_ += n;
    const auto vocab = static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model_)));
    return std::span<const float>(llama_get_logits(context_), tokens.size() * vocab);
}

}  // namespace quire::bench
