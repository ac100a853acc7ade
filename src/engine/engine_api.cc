// The verbs of EngineApi: any thread in, one message to the engine's thread, an answer out.
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "base/check.h"
#include "codec/codec_table.h"
#include "engine/engine_core.h"
#include "engine/model/chat_tokens.h"

namespace quire {
namespace {

constexpr int64_t kFlushWait_ns = int64_t{60} * 1'000'000'000;

Error not_served(const std::string& codec) {
    return make_error(Code::invalid, "KV in '" + codec + "' is not served here");
}

}  // namespace

template <typename T>
T EngineCore::ask(std::function<T()> work) {
    auto promise = std::make_shared<std::promise<T>>();
    std::future<T> answer = promise->get_future();
    mailbox_.post([promise, work = std::move(work)] { promise->set_value(work()); });
    return answer.get();  // the engine's thread answers within a step, and on its way out
}

Result<std::vector<TokenId>> EngineCore::tokenize(std::string_view text, bool special,
                                                  const TokenizeLimits& limits) const {
    return vocab_->tokenize(text, special, limits);
}

std::string EngineCore::detokenize(TokenSpan tokens) const {
    return vocab_->detokenize(tokens);
}

Result<std::vector<TokenId>> EngineCore::tokenize_chat(const std::vector<ChatMessage>& messages,
                                                       bool add_generation_prompt,
                                                       const TokenizeLimits& limits) const {
    return chat_tokens(*vocab_, *chat_, messages, add_generation_prompt, limits);
}

Lane* EngineCore::find_lane(std::string_view codec) const {
    const KvCodecInfo* found = info_.find_kv_codec(codec);
    return found ? lanes_[static_cast<size_t>(found - info_.kv_codecs.data())].get() : nullptr;
}

Result<RequestId> EngineCore::submit(GenerateRequest request, EventSink sink) {
    if (draining_.load()) return make_error(Code::cancelled, "the server is shutting down");
    if (request.prompt.empty()) return make_error(Code::invalid, "the prompt has no tokens");
    if (request.max_tokens == 0) return make_error(Code::invalid, "max_tokens must be at least 1");
    Lane* lane = find_lane(request.kv_codec);
    if (!lane) return not_served(request.kv_codec);
    const uint64_t wanted = uint64_t{request.prompt.size()} + request.max_tokens;
    if (wanted > info_.context_tokens)
        return make_error(Code::invalid, "the prompt has " + std::to_string(request.prompt.size()) +
                                             " tokens and max_tokens is " +
                                             std::to_string(request.max_tokens) +
                                             ", more than the context of " +
                                             std::to_string(info_.context_tokens) + " tokens");
    if (wanted > lane->info.tokens_max)
        return make_error(Code::invalid,
                          "the prompt has " + std::to_string(request.prompt.size()) +
                              " tokens and max_tokens is " + std::to_string(request.max_tokens) +
                              ", more than --kv-memory holds in " + lane->info.name +
                              ", which is " + std::to_string(lane->info.tokens_max) + " tokens");
    for (TokenId token : request.prompt)
        if (token < 0 || static_cast<uint32_t>(token) >= info_.vocab_size)
            return make_error(Code::invalid, "token id " + std::to_string(token) +
                                                 " is outside the vocabulary of " +
                                                 std::to_string(info_.vocab_size));
    QUIRE_TRY(Sampler::check(request.sampling, static_cast<int32_t>(info_.vocab_size)));
    if (queued_.fetch_add(1) >= options_.max_queue + options_.max_running) {
        queued_.fetch_sub(1);
        return make_error(Code::busy, "too many requests are waiting; try again later");
    }
    auto job = std::make_unique<Job>(std::move(request), std::move(sink));
    const RequestId id = next_id_.fetch_add(1);
    job->id = id;
    job->lane = lane;
    job->prompt_tokens = static_cast<uint32_t>(job->tokens.size());
    job->submitted_ns = options_.clock->monotonic_ns();
    const int64_t limit_ns =
        job->request.timeout_ns > 0 ? job->request.timeout_ns : options_.request_timeout_ns;
    job->deadline_ns = job->submitted_ns + limit_ns;
    job->sampler = std::make_unique<Sampler>(job->request.sampling, job->request.prompt);
    auto handed = std::make_shared<std::unique_ptr<Job>>(std::move(job));
    mailbox_.post([lane, handed] { lane->queue.push_back(std::move(*handed)); });
    return id;
}

void EngineCore::cancel(RequestId id) {
    mailbox_.post([this, id] {
        for (auto& job : active_)
            if (job->id == id) job->cancelled = true;
        for (auto& lane : lanes_)
            for (auto& job : lane->queue)
                if (job->id == id) job->cancelled = true;
    });
}

std::string EngineCore::holder_text(const KvCodecInfo& kv, const CacheExplanation& from) const {
    const std::string holder = from.holder.value.to_hex();
    if (holder == info_.model_id && from.holder_block_tokens == kv.block_tokens &&
        codec::codec_name_of_id(from.holder_codec) == kv.name)
        return fmt::format(
            "; the tiers hold the same text's blocks in {}, but coded with another sidecar, other "
            "sinks or other skipped layers",
            kv.name);
    if (holder == info_.model_id)
        return fmt::format(
            "; the tiers hold the same text's blocks in another layout ({} in blocks of {} tokens; "
            "this request is served in {} in blocks of {})",
            codec::codec_name_of_id(from.holder_codec), from.holder_block_tokens, kv.name,
            kv.block_tokens);
    return fmt::format(
        "; the tiers hold the same text's blocks of another model, or of another version of its "
        "arithmetic (model id {}; this one is {})",
        holder, info_.model_id);
}

void EngineCore::fill_explanation(const Lane& lane, const CacheExplanation& from, TokenSpan prompt,
                                  Explanation& to) const {
    const uint32_t block_tokens = lane.info.block_tokens;
    to.prompt_tokens = static_cast<uint32_t>(prompt.size());
    to.prompt_blocks = from.prompt_blocks;
    to.hit_tokens = from.hit_blocks * block_tokens;
    for (int t = 0; t < kTierCount; ++t)
        to.hit_tokens_by_tier[t] = from.blocks_by_tier[t] * block_tokens;
    to.reason = miss_reason_name(from.reason);
    std::ostringstream text;
    text << to.hit_tokens << " of " << to.prompt_tokens << " tokens would come from the cache";
    switch (from.reason) {
        case MissReason::none:
            if (from.prompt_blocks == 0)
                text << "; a prompt shorter than a block (" << block_tokens
                     << " tokens) is never cached";
            else
                text << "; the rest has to be computed in any case";
            break;
        case MissReason::never_seen:
            text << "; no cached prompt goes on like this one";
            break;
        case MissReason::evicted:
        case MissReason::flushed:
        case MissReason::corrupt:
        case MissReason::io_error:
        case MissReason::not_admitted:
            text << "; the next block was " << miss_reason_name(from.reason) << " ("
                 << tier_name(from.tier) << ")";
            if (from.ago_ns >= 0) text << " " << from.ago_ns / 1'000'000'000 << " s ago";
            break;
        case MissReason::other_salt:
            text << "; the same text was cached under another cache_salt";
            break;
        case MissReason::other_tenant:
            text << "; the same text was cached by another tenant";
            break;
        case MissReason::other_model:
            text << holder_text(lane.info, from);
            break;
        case MissReason::other_packing:
            text << "; the next block was stored in " << tier_name(from.tier)
                 << " by another --kv-codec-cold or --kv-codec-host (or with another sidecar) "
                    "than this server's";
            break;
        case MissReason::cheaper_to_recompute:
            text << "; the next blocks exist, but reading them costs more than computing them";
            break;
        case MissReason::no_space:
            text << "; no KV memory was free to read more into";
            break;
        case MissReason::cache_off:
            text << "; the cache is switched off";
            break;
    }
    if (from.differs) {
        to.first_different_token = from.first_different_token;
        to.expected_text = vocab_->label(from.expected);
        to.actual_text = vocab_->label(from.actual);
        text << "; token " << from.first_different_token << " is '" << to.actual_text
             << "' where the nearest cached prompt has '" << to.expected_text << "'";
    }
    to.detail = text.str();
}

Explanation EngineCore::explain_now(Lane& lane, TokenSpan prompt, const Namespace& ns) const {
    CacheExplanation found = lane.cache->explain(prompt, ns);
    // A tenant is told nothing about what others cached.
    if (found.reason == MissReason::other_tenant && !ns.tenant.empty())
        found.reason = MissReason::never_seen;
    Explanation answer;
    fill_explanation(lane, found, prompt, answer);
    if (answer.reason != miss_reason_name(MissReason::never_seen)) return answer;
    for (const auto& other : lanes_) {
        if (other.get() == &lane) continue;
        const uint32_t theirs =
            other->cache->explain(prompt, ns).hit_blocks * other->info.block_tokens;
        if (theirs > answer.hit_tokens)
            answer.detail +=
                "; " + std::to_string(theirs) + " of them are cached in " + other->info.name;
    }
    return answer;
}

Result<Explanation> EngineCore::explain(std::vector<TokenId> prompt, std::string tenant,
                                        std::string salt, std::string codec) {
    for (TokenId token : prompt)
        if (token < 0 || static_cast<uint32_t>(token) >= info_.vocab_size)
            return make_error(Code::invalid,
                              "token id " + std::to_string(token) + " is outside the vocabulary");
    Lane* lane = find_lane(codec);
    if (!lane) return not_served(codec);
    return ask<Explanation>(
        [this, lane, prompt = std::move(prompt), tenant = std::move(tenant),
         salt = std::move(salt)] { return explain_now(*lane, prompt, {tenant, salt}); });
}

CacheStatus EngineCore::cache_status() {
    const EngineStats all = stats();
    const CacheStats& cache = all.cache;
    CacheStatus status;
    CacheStatus::TierRow g1;
    g1.tier = tier_name(Tier::g1);
    g1.name = "arena";
    g1.capacity_bytes = cache.g1_capacity_bytes;
    g1.used_bytes = cache.g1_used_bytes;
    g1.blocks = cache.g1_blocks;
    g1.pinned_blocks = cache.pinned_blocks;
    g1.evicted = cache.evicted_blocks;
    status.codecs.clear();
    for (size_t i = 0; i < all.codecs.size(); ++i) {
        const EngineStats::Codec& from = all.codecs[i];
        const KvCodecInfo& kv = info_.kv_codecs[i];
        g1.hits += from.g1_hit_tokens / kv.block_tokens;
        status.codecs.push_back({kv, from.g1_capacity_bytes, from.g1_used_bytes, from.lookup_tokens,
                                 from.hit_tokens, from.running, from.waiting});
    }
    status.tiers.push_back(g1);
    for (size_t i = 0; i < all.tiers.size(); ++i) {
        const TierStats& from = all.tiers[i];
        CacheStatus::TierRow row;
        row.tier = tier_name(all.tier_names[i]);
        row.name = all.tier_names[i] == Tier::g2 ? "host" : "disk";
        row.capacity_bytes = from.capacity_bytes;
        row.used_bytes = from.used_bytes;
        row.blocks = from.blocks;
        row.hits = from.get_hits;
        row.evicted = from.evicted_blocks;
        row.corrupt = from.corrupt_blocks;
        row.pending = from.pending;
        row.packing = from.packing;
        row.packed_from_bytes = from.packed_from_bytes;
        row.packed_to_bytes = from.packed_to_bytes;
        row.degraded = from.degraded;
        row.degraded_why = from.degraded_why;
        status.tiers.push_back(row);
    }
    status.sidecar = sidecar_status();
    status.index_blocks = cache.index_blocks;
    status.index_bytes = cache.index_bytes;
    status.lookup_tokens = cache.lookup_tokens;
    for (uint64_t tokens : cache.hit_tokens) status.hit_tokens += tokens;
    status.leases = cache.leases;
    status.pending_loads = cache.pending_loads;
    status.pending_stores = cache.pending_stores;
    return status;
}

SidecarStatus EngineCore::sidecar_status() const {
    if (learning_) return learning_->status();
    if (sidecar_hash_ == Hash128{}) return {};
    return {.state = SidecarStatus::State::used, .hash = sidecar_hash_.to_hex(), .why = {}};
}

EngineStats EngineCore::stats() {
    std::lock_guard lock(snapshot_mutex_);
    return snapshot_;
}

Result<uint64_t> EngineCore::flush(std::vector<Tier> tiers, bool write_back) {
    if (tiers.empty()) tiers = {Tier::g1, Tier::g2, Tier::g3};
    if (!write_back) {
        return ask<uint64_t>([this, tiers] {
            uint64_t dropped = 0;
            for (auto& lane : lanes_)
                for (Tier tier : tiers) dropped += lane->cache->flush(tier);
            take_snapshot(true);  // who was answered finds it in the status
            return dropped;
        });
    }
    auto flush = std::make_unique<Flush>();
    flush->tiers = std::move(tiers);
    flush->give_up_ns = options_.clock->monotonic_ns() + kFlushWait_ns;
    std::future<uint64_t> done = flush->done.get_future();
    auto handed = std::make_shared<std::unique_ptr<Flush>>(std::move(flush));
    mailbox_.post([this, handed] {
        (*handed)->pass = ++flush_passes_;
        flushes_.push_back(std::move(*handed));
    });
    return done.get();
}

EngineLoad EngineCore::load() const {
    const uint32_t running = running_.load(std::memory_order_relaxed);
    const uint32_t all = queued_.load(std::memory_order_relaxed);
    return {running, all > running ? all - running : 0, draining_.load(std::memory_order_relaxed),
            options_.max_queue + options_.max_running};
}

void EngineCore::drain(int64_t timeout_ns) {
    draining_ = true;
    const int64_t give_up_ns = options_.clock->monotonic_ns() + timeout_ns;
    auto drain = std::make_shared<std::unique_ptr<Drain>>(std::make_unique<Drain>());
    (*drain)->give_up_ns = give_up_ns;
    std::future<void> done = (*drain)->done.get_future();
    mailbox_.post([this, drain] { drains_.push_back(std::move(*drain)); });
    done.wait();
    (void)tiers_->flush(std::max<int64_t>(0, give_up_ns - options_.clock->monotonic_ns()));
}

}  // namespace quire
