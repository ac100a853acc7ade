// EngineCore: the engine's one thread and everything it owns. Internal to engine/.
//
// A request (engine_job.h) goes: queued → admitted (holds a lease; its prefix may still be loading)
// → computing prompt chunks → decoding → finished. Preempted jobs go back to the front of the queue
// with all their tokens; their published blocks stay in the cache (or are spilled below), so that
// little is computed again. Every path ends in finish(), which releases the lease and sends the
// last event. Requests of one codec share a lane (engine_lane.h); lanes take turns at steps.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/io.h"
#include "base/mailbox.h"
#include "engine/engine.h"
#include "engine/engine_job.h"
#include "engine/engine_lane.h"
#include "engine/model/chat_template.h"
#include "engine/model/vocab.h"
#include "engine/sidecar_learning.h"
#include "engine/step_gate.h"
#include "engine/step_plan.h"
#include "engine/tiers.h"

namespace quire {

class EngineCore final : public Engine {
 public:
    static Result<std::unique_ptr<Engine>> open(const EngineOptions& options);
    ~EngineCore() override;

    const ModelInfo& model() const override { return info_; }
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
    EngineStats stats() override;

 private:
    using Command = std::function<void()>;
    struct Flush {
        std::vector<Tier> tiers;
        int64_t give_up_ns = 0;
        uint64_t pass = 0;  // Cache::store_all's
        std::promise<uint64_t> done;
    };
    // Somebody waits until nothing runs and nothing is left to store; jobs are cut at give_up_ns.
    struct Drain {
        int64_t give_up_ns = 0;
        std::promise<void> done;
    };

    // A job's share of a step.
    struct Part {
        Job* job;
        uint32_t tokens;
        uint32_t from;                // position of the first of them
        bool landing = false;         // its cached pages are still being loaded
        int64_t landing_wait_ns = 0;  // how long the step may wait for them
    };
    struct StepSize {
        uint32_t rows = 0;             // tokens computed
        uint32_t prompt_rows = 0;      // of those, in prompt chunks
        uint64_t prompt_row_keys = 0;  // keys that prompt rows saw before their chunk
    };

    explicit EngineCore(const EngineOptions& options) : options_(options) {}
    Status open_model();  // what it says of itself, and what options ask of it
    Status describe_model();
    Status prepare_model();  // its weights and buffers
    Status open_caches();
    void begin_learning();
    SidecarStatus sidecar_status() const;

    // engine_api.cc: runs `work` on the engine's thread and returns what it returns.
    template <typename T>
    T ask(std::function<T()> work);
    Lane* find_lane(std::string_view codec) const;  // nullptr: not served
    Explanation explain_now(Lane& lane, TokenSpan prompt, const Namespace& ns) const;
    std::string holder_text(const KvCodecInfo& kv, const CacheExplanation& from) const;
    void fill_explanation(const Lane& lane, const CacheExplanation& from, TokenSpan prompt,
                          Explanation& to) const;

    // engine_loop.cc
    void run();
    void take_snapshot(bool now);
    bool turn();  // false: nothing could be done
    void poll_caches();
    size_t waiting() const;
    size_t active_in(const Lane& lane) const;
    void admit();
    Lane* next_to_admit() const;
    bool room_for(const Job& job) const;
    void note_ready(Job& job);
    std::vector<Part> candidates(const Lane& lane) const;
    static std::vector<StepCandidate> asks_of(const std::vector<Part>& parts);
    std::vector<Part> choose_parts(Lane& lane);
    static StepSequence lay_out(const Part& part);
    bool step();
    bool step(Lane& lane);
    void note_step(Lane& lane, const StepSize& size, int64_t elapsed_ns);
    bool make_room(Job& job, uint32_t tokens);
    void preempt(Job& job);
    void check_deadlines();
    void finish_flushes();
    uint64_t drop_all(std::span<const Tier> tiers);  // ends the pass that stored them
    void finish_drains();
    void hurry_stores();

    // engine_overlap.cc
    void add_landing(const Lane& lane, std::vector<Part>& parts, const StepBounds& bounds) const;
    bool others_ready(const Lane& lane) const;
    std::unique_ptr<StepGate> make_gate(Lane& lane, const std::vector<Part>& parts) const;
    bool settle_landing(Job& job, bool dropped, bool late);

    // engine_emit.cc
    void take_logits(Job& job, std::span<const float> rows, uint32_t n_rows);
    void emit_token(Job& job, std::span<const float> logits);
    TokenLogprob logprob_row(const Job& job, std::span<const float> logits, TokenId token) const;
    void add_prompt_logprobs(Job& job, std::span<const float> rows, uint32_t n_rows);
    void finish(Job& job, Finish how, std::optional<Error> error = std::nullopt);
    void fill_timing(Job& job);

    EngineOptions options_;
    ModelInfo info_;
    std::unique_ptr<GgufModel> model_;
    std::unique_ptr<Vocab> vocab_;
    std::vector<TokenId> end_tokens_;
    std::unique_ptr<ChatTemplate> chat_;
    std::unique_ptr<SidecarLearning> learning_;  // null: nothing is learned
    Hash128 sidecar_hash_;                       // of the one in use; zero: none
    std::unique_ptr<Tiers> tiers_;
    std::vector<LanePlan> plans_;               // until the caches are open
    std::vector<std::unique_ptr<Lane>> lanes_;  // of the default codec first

    // Owned by the engine's thread.
    std::vector<std::unique_ptr<Job>> active_;  // in order of admission
    std::vector<std::unique_ptr<Flush>> flushes_;
    uint64_t flush_passes_ = 0;
    std::vector<std::unique_ptr<Drain>> drains_;
    GenerateEvent event_;  // being filled for the job at hand
    EngineStats stats_;
    int64_t snapshot_ns_ = 0;
    bool hurrying_ = false;  // the tiers were told

    std::mutex snapshot_mutex_;
    EngineStats snapshot_;  // under snapshot_mutex_

    Mailbox<Command> mailbox_;
    std::atomic<RequestId> next_id_{1};
    std::atomic<uint32_t> queued_{0};  // accepted and not finished
    std::atomic<uint32_t> running_{0};
    std::atomic<bool> draining_{false};
    std::atomic<bool> stopping_{false};
    std::thread thread_;
};

}  // namespace quire
