// Opening an engine: model, vocabulary, tiers, cache, thread.
#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/resources.h"
#include "engine/engine_core.h"
#include "engine/options_check.h"

namespace quire {
namespace {

// A first guess, corrected by every step: a small model on one core computes about this fast.
constexpr double kFirstPrefillNsPerToken = 5e6;

// What an option's memory, cut into shares, is too small for.
Error about_share(const char* option, const std::vector<std::unique_ptr<Lane>>& lanes,
                  const Lane& lane, Error error) {
    std::string about = option;
    if (lanes.size() > 1)
        about += ", of which " + lane.info.name + " gets one of " + std::to_string(lanes.size()) +
                 " equal shares";
    error.message = about + ": " + error.message;
    return error;
}

}  // namespace

Result<std::unique_ptr<Engine>> open_engine(const EngineOptions& options) {
    return with_resources([&] { return EngineCore::open(options); });
}

Result<std::unique_ptr<Engine>> EngineCore::open(const EngineOptions& options) {
    std::unique_ptr<EngineCore> engine(new EngineCore(options));
    // What can be found wrong is looked for before what takes long.
    QUIRE_TRY(check_options(options));
    QUIRE_TRY(engine->open_model());
    QUIRE_TRY(engine->prepare_model());
    QUIRE_TRY(engine->open_caches());
    engine->take_snapshot(true);
    EngineCore* self = engine.get();
    engine->thread_ = std::thread([self] { self->run(); });
    return std::unique_ptr<Engine>(std::move(engine));
}

EngineCore::~EngineCore() {
    stopping_ = true;
    mailbox_.notify();
    if (thread_.joinable()) thread_.join();
    for (auto& flush : flushes_) flush->done.set_value(0);
    for (auto& drain : drains_) drain->done.set_value();
    for (auto& lane : lanes_) lane->cache.reset();  // before the tiers that its movers use
}

Status EngineCore::open_model() {
    auto model = GgufModel::open(options_.model_path);
    if (!model.ok()) return model.error();
    model_ = std::move(model).value();
    auto vocab = Vocab::open(options_.model_path);
    if (!vocab.ok()) return vocab.error();
    vocab_ = std::move(vocab).value();
    const auto name = [this](TokenId token) { return token < 0 ? "" : vocab_->label(token); };
    auto chat =
        ChatTemplate::create(vocab_->chat_template(), name(vocab_->bos()), name(vocab_->eos()));
    if (!chat.ok()) return chat.error();
    chat_ = std::move(chat).value();
    for (TokenId token = 0; token < vocab_->size(); ++token)
        if (vocab_->is_end(token)) end_tokens_.push_back(token);

    if (options_.threads <= 0)
        options_.threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    begin_learning();
    auto plans = plan_lanes(options_, *model_);
    if (!plans.ok()) return plans.error();
    plans_ = std::move(plans).value();
    if (!options_.kv_sidecar.empty()) {
        const auto read = codec::read_sidecar(options_.kv_sidecar);
        if (read.ok()) sidecar_hash_ = read->hash;  // who needs it says what is wrong with it
    }
    return describe_model();
}

Status EngineCore::describe_model() {
    const HParams& hparams = model_->hparams();
    info_.file = options_.model_path;
    info_.name = options_.model_name.empty()
                     ? std::filesystem::path(options_.model_path).stem().string()
                     : options_.model_name;
    info_.family = hparams.family->name;
    info_.model_id = model_->id().value.to_hex();
    info_.vocab_size = static_cast<uint32_t>(hparams.n_vocab);
    info_.context_tokens = static_cast<uint32_t>(hparams.context_tokens);
    if (options_.context_tokens > info_.context_tokens)
        return make_error(Code::invalid, "--context " + std::to_string(options_.context_tokens) +
                                             " is more than the model's " +
                                             std::to_string(info_.context_tokens) + " tokens");
    if (options_.context_tokens > 0) info_.context_tokens = options_.context_tokens;
    info_.longest_token_bytes = vocab_->longest_token_bytes();
    info_.file_bytes = model_->file_bytes();
    info_.created_unix_s = options_.clock->wall_ns() / 1'000'000'000;
    return {};
}

Status EngineCore::prepare_model() {
    auto lanes = open_lanes(options_, *model_, plans_, learning_ ? learning_->observer() : nullptr);
    if (!lanes.ok()) return lanes.error();
    lanes_ = std::move(lanes).value();
    return {};
}

// A file that is there is used as it is; whatever keeps it from being read is said where it is
// read.
void EngineCore::begin_learning() {
    if (options_.kv_learn_tokens == 0) return;
    std::error_code unknown;
    if (std::filesystem::exists(options_.kv_sidecar, unknown) || unknown) return;
    learning_ = std::make_unique<SidecarLearning>(*model_, options_.kv_sidecar,
                                                  options_.kv_learn_tokens, options_.threads);
    options_.kv_sidecar.clear();
}

// Lanes share G1 and the host's pool equally.
Status EngineCore::open_caches() {
    std::vector<TierPages> pages;
    for (LanePlan& plan : plans_)
        pages.push_back({std::move(plan.layout), std::move(plan.host), std::move(plan.cold)});
    plans_.clear();
    auto tiers = Tiers::open(options_, pages);
    if (!tiers.ok()) return tiers.error();
    tiers_ = std::move(tiers).value();
    CacheOptions cache;
    cache.model = model_->id();
    cache.g1_bytes = options_.kv_memory_bytes / lanes_.size();
    cache.pending_store_bytes_max /= lanes_.size();
    cache.demotion_bytes_max /= lanes_.size();
    cache.evict = options_.evict;
    cache.enabled = options_.cache;
    cache.metrics = options_.metrics;
    cache.cost.prefill_ns_per_token = kFirstPrefillNsPerToken;
    cache.step_tokens = std::max(options_.step_tokens, options_.max_running);
    cache.leases_max = options_.max_running;
    info_.kv_codecs.clear();
    for (size_t i = 0; i < lanes_.size(); ++i) {
        Lane& lane = *lanes_[i];
        cache.layout = pages[i].layout;
        auto made =
            Cache::create(cache, options_.cache ? tiers_->lower(i) : std::vector<LowerTier>{},
                          *options_.clock, [this] { mailbox_.notify(); });
        if (!made.ok()) return about_share("--kv-memory", lanes_, lane, made.error());
        lane.cache = std::move(made).value();
        lane.info.tokens_max = lane.cache->lease_tokens_max();
        info_.kv_codecs.push_back(lane.info);
    }
    return {};
}

}  // namespace quire
