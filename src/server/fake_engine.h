// A scripted EngineApi for the server's tests: no model, every answer known beforehand.
//
// A token is a byte of text plus kFirstByte. The answer to a prompt is "one two three ..." by
// words, as many as max_tokens asks for; a test may hold requests back, fail them or look at what
// was asked. Events come from the engine's own thread.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/api.h"

namespace quire::server {

class FakeEngine final : public EngineApi {
 public:
    static constexpr TokenId kFirstByte = 3;
    static constexpr uint32_t kContext = 4096;

    FakeEngine();
    ~FakeEngine() override;

    const ModelInfo& model() const override { return model_; }
    Result<std::vector<TokenId>> tokenize(std::string_view text, bool special,
                                          const TokenizeLimits& limits) const override;
    std::string detokenize(TokenSpan tokens) const override;
    Result<std::vector<TokenId>> tokenize_chat(const std::vector<ChatMessage>& messages,
                                               bool add_generation_prompt,
                                               const TokenizeLimits& limits) const override;
    Result<RequestId> submit(GenerateRequest request, EventSink sink) override;
    void cancel(RequestId id) override;
    Result<Explanation> explain(std::vector<TokenId> prompt, std::string tenant, std::string salt,
                                std::string codec) override;
    CacheStatus cache_status() override;
    Result<uint64_t> flush(std::vector<Tier> tiers, bool write_back) override;
    EngineLoad load() const override;
    void drain(int64_t timeout_ns) override;

    // --- What tests set and see. Any thread.
    // Requests are accepted and answer one token, then nothing more until release().
    void hold();
    void release();
    // tokenize() goes on until its limits end it or this is released; how many are at it.
    void hold_tokenizing();
    void release_tokenizing();
    bool wait_tokenizing(uint32_t count);
    // Tokenizing has gone over this many bytes so far.
    uint64_t tokenized_bytes() const;
    void set_requests_max(uint32_t requests);
    // The next submits fail with this.
    void refuse(std::optional<Error> error);
    // Running requests fail with this after their first token.
    void fail_later(std::optional<Error> error);
    // The answer is this text, one token a byte, instead of words.
    void set_answer(std::string text);
    // Before any request: tokens that G1 holds.
    void set_kv_tokens_max(uint32_t tokens) { model_.kv_codecs[0].tokens_max = tokens; }
    // The same: further codecs, of which G1 holds as many tokens.
    void set_sidecar(SidecarStatus status) {
        const std::lock_guard lock(mutex_);
        sidecar_ = std::move(status);
    }
    void allow_codec(const std::string& name, uint32_t tokens) {
        model_.kv_codecs.push_back({.name = name, .tokens_max = tokens});
    }
    // Every token's text is this.
    void set_word(std::string text);

    std::vector<GenerateRequest> requests() const;  // in the order submitted
    uint64_t cancelled() const;
    uint32_t running() const;
    std::vector<Tier> flushed() const;
    // Waits until running() is `count`; false after 10 s.
    bool wait_running(uint32_t count);
    bool wait_cancelled(uint64_t count);

 private:
    struct Job {
        RequestId id = 0;
        GenerateRequest request;
        EventSink sink;
        uint32_t emitted = 0;
        size_t text_at = 0;
    };

    Code wait_while_held(const TokenizeLimits& limits) const;
    void run();
    bool can_step(const Job& job) const;
    GenerateEvent step(Job& job);
    std::string piece(const Job& job, bool& last) const;
    GenerateEvent last_event(const Job& job, Finish finish) const;
    uint32_t cached_prefix(const GenerateRequest& request) const;

    ModelInfo model_;
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    mutable uint32_t tokenizing_ = 0;
    mutable uint64_t tokenized_bytes_ = 0;
    bool tokenizing_held_ = false;
    uint32_t requests_max_ = 0;
    std::deque<Job> jobs_;
    std::set<RequestId> open_, cancel_wanted_;
    std::vector<GenerateRequest> requests_;
    std::set<std::string> seen_;  // tenant, salt and prompt of finished requests
    std::vector<Tier> flushed_;
    std::optional<Error> refusal_, later_failure_;
    SidecarStatus sidecar_;
    std::string answer_, word_;
    uint64_t cancelled_ = 0;
    uint32_t stepping_ = 0;
    RequestId next_id_ = 1;
    bool held_ = false, draining_ = false, stopping_ = false;
    std::thread thread_;
};

}  // namespace quire::server
