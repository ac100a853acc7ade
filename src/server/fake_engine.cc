#include "server/fake_engine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>

namespace quire::server {
namespace {

constexpr const char* kWords[] = {"one", " two", " three", " four", " five", " six", " seven"};
constexpr auto kPatience = std::chrono::seconds(10);

std::string cache_key(const GenerateRequest& request) {
    std::string key = request.tenant + '\n' + request.cache_salt + '\n' + request.kv_codec + '\n';
    for (TokenId token : request.prompt) key += std::to_string(token) + ',';
    return key;
}

}  // namespace

FakeEngine::FakeEngine() {
    model_.name = "fake";
    model_.family = "llama";
    model_.file = "fake.gguf";
    model_.model_id = "0123456789abcdef0123456789abcdef";
    model_.context_tokens = kContext;
    model_.vocab_size = 256 + kFirstByte;
    model_.longest_token_bytes = 4;  // a bound need not be reached
    model_.created_unix_s = 1'700'000'000;
    thread_ = std::thread([this] { run(); });
}

FakeEngine::~FakeEngine() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        changed_.notify_all();
    }
    thread_.join();
}

Code FakeEngine::wait_while_held(const TokenizeLimits& limits) const {
    std::unique_lock lock(mutex_);
    ++tokenizing_;
    changed_.notify_all();
    Code code = Code::ok;
    // Whether to stop is told by nobody: it is asked, as a real tokenizer asks.
    while (tokenizing_held_ && code == Code::ok) {
        changed_.wait_for(lock, std::chrono::milliseconds(1));
        if (limits.stop) code = limits.stop();
    }
    --tokenizing_;
    changed_.notify_all();
    return code;
}

Result<std::vector<TokenId>> FakeEngine::tokenize(std::string_view text, bool,
                                                  const TokenizeLimits& limits) const {
    if (const Code code = wait_while_held(limits); code != Code::ok)
        return make_error(code, "tokenizing was given up");
    std::vector<TokenId> tokens;
    for (unsigned char c : text) {
        if (tokens.size() > limits.tokens_max) break;
        tokens.push_back(c + kFirstByte);
    }
    const std::lock_guard lock(mutex_);
    tokenized_bytes_ += tokens.size();
    return tokens;
}

std::string FakeEngine::detokenize(TokenSpan tokens) const {
    std::string text;
    for (TokenId token : tokens) {
        if (token >= kFirstByte) text += static_cast<char>(token - kFirstByte);
    }
    return text;
}

Result<std::vector<TokenId>> FakeEngine::tokenize_chat(const std::vector<ChatMessage>& messages,
                                                       bool add_generation_prompt,
                                                       const TokenizeLimits& limits) const {
    std::string text;
    for (const ChatMessage& message : messages) {
        if (message.role == "tool") {
            return make_error(Code::invalid, "the chat template of this model has no role 'tool'");
        }
        text += "<" + message.role + ">" + message.content + "\n";
    }
    if (add_generation_prompt) text += "<assistant>";
    return tokenize(text, true, limits);
}

Result<RequestId> FakeEngine::submit(GenerateRequest request, EventSink sink) {
    const std::lock_guard lock(mutex_);
    if (refusal_) return *refusal_;
    if (draining_) return make_error(Code::cancelled, "draining");
    requests_.push_back(request);
    Job job;
    job.id = next_id_++;
    job.request = std::move(request);
    job.sink = std::move(sink);
    open_.insert(job.id);
    jobs_.push_back(std::move(job));
    changed_.notify_all();
    return next_id_ - 1;
}

void FakeEngine::cancel(RequestId id) {
    const std::lock_guard lock(mutex_);
    if (open_.contains(id)) cancel_wanted_.insert(id);
    changed_.notify_all();
}

bool FakeEngine::can_step(const Job& job) const {
    return !held_ || cancel_wanted_.contains(job.id) || job.emitted == 0;
}

void FakeEngine::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        auto next = std::find_if(jobs_.begin(), jobs_.end(),
                                 [this](const Job& job) { return can_step(job); });
        if (stopping_) return;
        if (next == jobs_.end()) {
            changed_.wait(lock);
            continue;
        }
        Job job = std::move(*next);
        jobs_.erase(next);
        ++stepping_;
        GenerateEvent event = step(job);
        const bool last = event.finish != Finish::none;
        lock.unlock();
        job.sink(std::move(event));
        if (last) job.sink = nullptr;
        lock.lock();
        if (last) open_.erase(job.id);
        --stepping_;
        if (!last) jobs_.push_back(std::move(job));
        changed_.notify_all();
    }
}

std::string FakeEngine::piece(const Job& job, bool& last) const {
    if (answer_.empty()) {
        last = false;
        if (!word_.empty()) return word_;
        return kWords[job.emitted % std::size(kWords)];
    }
    last = job.text_at + 1 == answer_.size();
    return answer_.substr(job.text_at, 1);
}

GenerateEvent FakeEngine::step(Job& job) {
    if (cancel_wanted_.contains(job.id)) {
        ++cancelled_;
        return last_event(job, Finish::cancelled);
    }
    if (later_failure_ && job.emitted > 0) {
        GenerateEvent event = last_event(job, Finish::error);
        event.error = *later_failure_;
        return event;
    }
    bool ends = false;
    const std::string text = piece(job, ends);
    ++job.emitted;
    ++job.text_at;
    Finish finish = Finish::none;
    if (ends) finish = Finish::stop;
    if (job.emitted >= job.request.max_tokens) finish = Finish::length;
    const bool stopped =
        std::find(job.request.stop.begin(), job.request.stop.end(), text) != job.request.stop.end();
    if (stopped) finish = Finish::stop;
    GenerateEvent event = finish == Finish::none ? GenerateEvent{} : last_event(job, finish);
    if (!stopped) event.text = text;
    event.tokens = {static_cast<TokenId>(text[0]) + kFirstByte};
    if (job.request.sampling.logprobs >= 0) {
        TokenLogprob logprob{event.tokens[0], text, -0.5f, {}};
        for (int i = 0; i < job.request.sampling.logprobs; ++i) {
            logprob.top.emplace_back('a' + i + kFirstByte, -0.5f - static_cast<float>(i));
        }
        event.logprobs.push_back(std::move(logprob));
    }
    if (finish != Finish::none) seen_.insert(cache_key(job.request));
    return event;
}

uint32_t FakeEngine::cached_prefix(const GenerateRequest& request) const {
    return seen_.contains(cache_key(request)) ? static_cast<uint32_t>(request.prompt.size()) - 1
                                              : 0;
}

GenerateEvent FakeEngine::last_event(const Job& job, Finish finish) const {
    GenerateEvent event;
    event.finish = finish;
    event.timing.prompt_tokens = static_cast<uint32_t>(job.request.prompt.size());
    event.timing.completion_tokens = job.emitted;
    event.timing.queue_ns = 1'000'000;
    event.timing.prefill_ns = 2'000'000;
    event.timing.decode_ns = 3'000'000;
    event.timing.first_token_ns = 3'500'000;
    event.timing.cached_tokens[static_cast<int>(Tier::g1)] = cached_prefix(job.request);
    event.timing.miss_reason = "never_seen";
    return event;
}

Result<Explanation> FakeEngine::explain(std::vector<TokenId> prompt, std::string tenant,
                                        std::string salt, std::string codec) {
    const std::lock_guard lock(mutex_);
    Explanation out;
    out.prompt_tokens = static_cast<uint32_t>(prompt.size());
    GenerateRequest same;
    same.prompt = std::move(prompt);
    same.tenant = std::move(tenant);
    same.cache_salt = std::move(salt);
    same.kv_codec = std::move(codec);
    out.hit_tokens = cached_prefix(same);
    out.reason = out.hit_tokens > 0 ? "whole_prompt" : "other_tenant";
    out.detail = "tenant 'red' has it";
    out.first_different_token = 7;
    out.expected_text = "secret";
    return out;
}

CacheStatus FakeEngine::cache_status() {
    CacheStatus status;
    CacheStatus::TierRow row;
    row.tier = "g1";
    row.name = "arena";
    row.capacity_bytes = 1 << 20;
    status.tiers.push_back(row);
    status.codecs[0].kv = {.name = "k8v8",
                           .sink_tokens = 64,
                           .recent_tokens = 128,
                           .exact_layers = {0, 29},
                           .bytes_per_token = 66};
    status.codecs.push_back({.g1_used_bytes = 512, .lookup_tokens = 4, .hit_tokens = 3});
    {
        const std::lock_guard lock(mutex_);
        status.sidecar = sidecar_;
    }
    status.lookup_tokens = 8;
    status.hit_tokens = 2;
    return status;
}

Result<uint64_t> FakeEngine::flush(std::vector<Tier> tiers, bool) {
    const std::lock_guard lock(mutex_);
    flushed_ = std::move(tiers);
    seen_.clear();
    return uint64_t{5};
}

EngineLoad FakeEngine::load() const {
    const std::lock_guard lock(mutex_);
    return {static_cast<uint32_t>(jobs_.size()) + stepping_, 0, draining_, requests_max_};
}

void FakeEngine::drain(int64_t timeout_ns) {
    std::unique_lock lock(mutex_);
    draining_ = true;
    auto empty = [this] { return jobs_.empty() && stepping_ == 0; };
    if (changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), empty)) return;
    cancel_wanted_ = open_;
    changed_.notify_all();
    changed_.wait_for(lock, kPatience, empty);
}

void FakeEngine::hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
}

void FakeEngine::release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
}

void FakeEngine::hold_tokenizing() {
    const std::lock_guard lock(mutex_);
    tokenizing_held_ = true;
}

void FakeEngine::release_tokenizing() {
    const std::lock_guard lock(mutex_);
    tokenizing_held_ = false;
    changed_.notify_all();
}

bool FakeEngine::wait_tokenizing(uint32_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return tokenizing_ == count; });
}

uint64_t FakeEngine::tokenized_bytes() const {
    const std::lock_guard lock(mutex_);
    return tokenized_bytes_;
}

void FakeEngine::set_requests_max(uint32_t requests) {
    const std::lock_guard lock(mutex_);
    requests_max_ = requests;
}

void FakeEngine::refuse(std::optional<Error> error) {
    const std::lock_guard lock(mutex_);
    refusal_ = std::move(error);
}

void FakeEngine::fail_later(std::optional<Error> error) {
    const std::lock_guard lock(mutex_);
    later_failure_ = std::move(error);
}

void FakeEngine::set_answer(std::string text) {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(text);
}

void FakeEngine::set_word(std::string text) {
    const std::lock_guard lock(mutex_);
    word_ = std::move(text);
}

std::vector<GenerateRequest> FakeEngine::requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
}

uint64_t FakeEngine::cancelled() const {
    const std::lock_guard lock(mutex_);
    return cancelled_;
}

uint32_t FakeEngine::running() const {
    return load().running;
}

std::vector<Tier> FakeEngine::flushed() const {
    const std::lock_guard lock(mutex_);
    return flushed_;
}

bool FakeEngine::wait_running(uint32_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return jobs_.size() + stepping_ == count; });
}

bool FakeEngine::wait_cancelled(uint64_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return cancelled_ >= count; });
}

}  // namespace quire::server
