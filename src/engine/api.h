// What the server (and the benches) ask of an engine. One implementation: engine/engine.h; tests of
// the server use a scripted one.
//
// Threads: every verb may be called from any thread. Events of a request arrive on the engine's
// thread, in order, each exactly once, ending with exactly one that has `finish` set; a sink must
// not block.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/tier.h"
#include "core/types.h"
#include "engine/tokenize_limits.h"

namespace quire {

struct Sampling {
    float temperature = 1.0f;  // 0: greedy
    int32_t top_k = 0;         // 0: off
    float top_p = 1.0f;
    float min_p = 0.0f;
    float repetition_penalty = 1.0f;
    float presence_penalty = 0.0f;
    float frequency_penalty = 0.0f;
    std::vector<std::pair<TokenId, float>> logit_bias;
    uint64_t seed = 0;
    int32_t logprobs = -1;  // -1: none; n >= 0: the chosen token's and the n most likely
    bool ignore_eos = false;
};

struct GenerateRequest {
    std::vector<TokenId> prompt;
    uint32_t max_tokens = 16;
    uint32_t min_tokens = 0;  // before them neither an end token nor a stop string ends the text
    std::vector<std::string> stop;  // text; the stop string itself is not emitted
    Sampling sampling;
    std::string tenant;
    std::string cache_salt;
    std::string kv_codec;          // one of ModelInfo::kv_codecs by its name; empty: the first
    int64_t timeout_ns = 0;        // 0: the engine's default; counts from submit
    bool prompt_logprobs = false;  // echo with logprobs
};

enum class Finish : uint8_t { none, stop, length, cancelled, timeout, error };

struct TokenLogprob {
    TokenId token = 0;
    std::string text;  // raw bytes of the token, maybe not whole UTF-8
    float logprob = 0;
    std::vector<std::pair<TokenId, float>> top;
};

// Where a request's time and prompt came from.
struct RequestTiming {
    int64_t queue_ns = 0;
    int64_t load_ns[kTierCount] = {};  // waiting for loads, by tier
    uint64_t load_bytes[kTierCount] = {};
    uint32_t cached_tokens[kTierCount] = {};  // prompt tokens taken from each tier
    int64_t prefill_ns = 0;                   // computing the rest of the prompt
    int64_t decode_ns = 0;
    int64_t first_token_ns = 0;  // submit to first token
    uint32_t prompt_tokens = 0;
    uint32_t completion_tokens = 0;
    std::string miss_reason;  // why the cached prefix ended where it did
};

struct GenerateEvent {
    std::string text;  // whole UTF-8 characters only; may be empty
    std::vector<TokenId> tokens;
    std::vector<TokenLogprob> logprobs;  // one per token when asked for
    Finish finish = Finish::none;
    std::optional<Error> error;  // finish == error or timeout
    RequestTiming timing;        // complete on the last event
};

using EventSink = std::function<void(GenerateEvent&&)>;
using RequestId = uint64_t;

struct ChatMessage {
    std::string role;
    std::string content;
};

// A codec that an engine writes KV in, and what it costs.
struct KvCodecInfo {
    std::string name = "raw16";
    uint32_t tokens_max = UINT32_MAX;  // of one request, prompt and answer: what its G1 can hold
    uint32_t block_tokens = 0;
    uint32_t sink_tokens = 0;            // exact, with a codec
    uint32_t recent_tokens = 0;          // so are up to so many, with a codec
    std::vector<uint16_t> exact_layers;  // and these; ascending
    uint64_t bytes_per_token = 0;  // with a codec: of a token behind the sinks in a whole block
    uint64_t bytes_4096 = 0;       // of 4,096 tokens together, sinks and the open span included
};

struct ModelInfo {
    std::string name;    // as clients name it
    std::string family;  // "llama", "gemma3", ...
    std::string file;
    std::string model_id;  // hex
    uint32_t context_tokens = 0;
    uint32_t vocab_size = 0;
    uint64_t file_bytes = 0;
    std::vector<KvCodecInfo> kv_codecs{{}};  // that a request may name; the first is the default
    uint32_t longest_token_bytes = 0;        // no token stands for more text; 0: nothing is known
    int64_t created_unix_s = 0;

    const KvCodecInfo& kv() const { return kv_codecs.front(); }
    // By its name; empty: the default. nullptr: not served.
    const KvCodecInfo* find_kv_codec(std::string_view codec) const {
        if (codec.empty()) return &kv();
        for (const KvCodecInfo& served : kv_codecs)
            if (served.name == codec) return &served;
        return nullptr;
    }
};

// Tokens that the prompt and the answer of one request may have together.
inline uint32_t request_tokens_max(const ModelInfo& model, const KvCodecInfo& kv) {
    return kv.tokens_max < model.context_tokens ? kv.tokens_max : model.context_tokens;
}

// Why a prompt would hit or miss now.
struct Explanation {
    uint32_t prompt_tokens = 0;
    uint32_t prompt_blocks = 0;
    uint32_t hit_tokens = 0;
    uint32_t hit_tokens_by_tier[kTierCount] = {};
    std::string reason;  // stable word: whole_prompt, never_seen, evicted, corrupt, not_admitted,
                         // other_salt, other_tenant, other_model, other_packing,
                         // cheaper_to_recompute, cache_off
    std::string detail;  // a sentence for people: tier, cause, when
    // The first token that differs from the nearest cached prompt, when one is known.
    std::optional<uint32_t> first_different_token;
    std::string expected_text;
    std::string actual_text;
};

// What codecs were told of the model.
struct SidecarStatus {
    enum class State : uint8_t {
        none,      // nothing
        used,      // the file with that hash
        learning,  // nothing yet: the means of tokens_wanted tokens are being learned
        learned,   // nothing: the file with that hash was written, and is for the next start
        failed,    // nothing: they were learned, but the file is not there
    };
    State state = State::none;
    std::string hash;
    uint32_t tokens_seen = 0, tokens_wanted = 0;
    std::string why;  // failed
};

struct CacheStatus {
    struct TierRow {
        std::string tier, name;
        uint64_t capacity_bytes = 0, used_bytes = 0, blocks = 0, pinned_blocks = 0;
        uint64_t hits = 0, evicted = 0, corrupt = 0, pending = 0;
        std::string packing;  // of its slabs; empty: they are as in memory
        uint64_t packed_from_bytes = 0, packed_to_bytes = 0;
        bool degraded = false;
        std::string degraded_why;
    };
    std::vector<TierRow> tiers;
    // How KV is written, and what came of it; the default codec first.
    struct CodecRow {
        KvCodecInfo kv;
        uint64_t g1_capacity_bytes = 0, g1_used_bytes = 0;
        uint64_t lookup_tokens = 0, hit_tokens = 0;
        uint64_t running = 0, waiting = 0;  // requests
    };
    std::vector<CodecRow> codecs{{}};
    SidecarStatus sidecar;
    uint64_t index_blocks = 0, index_bytes = 0;
    uint64_t lookup_tokens = 0, hit_tokens = 0;
    uint64_t leases = 0, pending_loads = 0, pending_stores = 0;
};

struct EngineLoad {
    uint32_t running = 0, waiting = 0;
    bool draining = false;
    uint32_t requests_max = 0;  // running and waiting together; 0: no bound
};

class EngineApi {
 public:
    virtual ~EngineApi() = default;

    virtual const ModelInfo& model() const = 0;
    // `special`: parse control tokens in the text and add BOS as the model wants. invalid: a text
    // that cannot be tokenized; the code with which limits.stop ended it.
    virtual Result<std::vector<TokenId>> tokenize(std::string_view text, bool special,
                                                  const TokenizeLimits& limits) const = 0;
    virtual std::string detokenize(TokenSpan tokens) const = 0;
    // The prompt of a conversation by the model's own chat template. Only the template's text
    // becomes control tokens; what the messages say is text.
    virtual Result<std::vector<TokenId>> tokenize_chat(const std::vector<ChatMessage>& messages,
                                                       bool add_generation_prompt,
                                                       const TokenizeLimits& limits) const = 0;

    // invalid: prompt empty, a codec that is not served, or prompt + max_tokens over
    // request_tokens_max() (checked before any work);
    // busy: the queue is full; cancelled: draining. After ok, the sink gets events.
    virtual Result<RequestId> submit(GenerateRequest request, EventSink sink) = 0;
    // Takes effect within one step; the sink still gets its last event. Unknown ids are ignored.
    virtual void cancel(RequestId id) = 0;

    // `codec`: as GenerateRequest::kv_codec.
    virtual Result<Explanation> explain(std::vector<TokenId> prompt, std::string tenant,
                                        std::string salt, std::string codec) = 0;
    virtual CacheStatus cache_status() = 0;
    // Drops unpinned blocks of the named tiers ("g1", "g2", "g3"; empty: all). With write_back,
    // first finishes copying them to the next tier down. Returns blocks dropped.
    virtual Result<uint64_t> flush(std::vector<Tier> tiers, bool write_back) = 0;
    virtual EngineLoad load() const = 0;
    // Refuses new requests, finishes running ones (cancels them at the deadline), stores what is
    // pending.
    virtual void drain(int64_t timeout_ns) = 0;
};

}  // namespace quire
