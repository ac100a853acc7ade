// Opening an engine: model, vocabulary, tiers, cache, thread.
#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/resources.h"
#include "engine/engine_core.h"

namespace quire {
namespace {

// A first guess, corrected by every step: a small model on one core computes about this fast.
constexpr double kFirstPrefillNsPerToken = 5e6;
constexpr int32_t kLogitRowsMax = 64;

}  // namespace

Result<std::unique_ptr<Engine>> open_engine(const EngineOptions& options) {
    return with_resources([&] { return EngineCore::open(options); });
}

Result<std::unique_ptr<Engine>> EngineCore::open(const EngineOptions& options) {
    std::unique_ptr<EngineCore> engine(new EngineCore(options));
    QUIRE_TRY(engine->open_model());
    QUIRE_TRY(engine->open_cache());
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
    cache_.reset();  // before the tiers that its movers use
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
    ForwardConfig config;
    QUIRE_TRY(choose_coding(&config.coding));
    config.n_threads = options_.threads;
    config.block_tokens = options_.block_tokens;
    config.max_rows = static_cast<int32_t>(std::max(options_.step_tokens, options_.max_running));
    config.max_sequences = static_cast<int32_t>(options_.max_running);
    config.max_logit_rows = std::max(kLogitRowsMax, static_cast<int32_t>(options_.max_running));
    config.attention = options_.attention;
    auto forward = Forward::create(*model_, config);
    if (!forward.ok()) return forward.error();
    forward_ = std::move(forward).value();

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
    info_.kv_bytes_per_token = forward_->layout().bytes_per_token();
    info_.kv_codec = config.coding.name();
    info_.kv_sink_tokens = forward_->layout().sink_tokens;
    info_.kv_bytes_4096 = forward_->layout().sequence_bytes(4096);
    info_.created_unix_s = options_.clock->wall_ns() / 1'000'000'000;
    return {};
}

// A codec decides how many tokens a block has.
Status EngineCore::choose_coding(KvCoding* coding) {
    const KvLayout plain = model_->kv_layout(kCodedBlockTokens);
    auto found = find_kv_coding(options_.kv_codec, options_.kv_sink_tokens, plain);
    if (!found.ok()) {
        Error error = found.error();
        error.message = "--kv-codec: " + error.message;
        return error;
    }
    *coding = std::move(found).value();
    if (!coding->any()) return {};
    options_.block_tokens = kCodedBlockTokens;
    if (options_.kv_sidecar.empty()) {
        if (!coding->scheduled) return {};
        return make_error(Code::invalid,
                          "--kv-codec schedule takes its widths from --kv-sidecar FILE; make one "
                          "with quire calibrate " +
                              options_.model_path);
    }
    const Status added = add_sidecar(coding, options_.kv_sidecar, model_->id(), plain);
    if (!added.ok()) {
        Error error = added.error();
        error.message = "--kv-sidecar: " + error.message;
        return error;
    }
    const HParams& hparams = model_->hparams();
    add_turns(coding, hparams.family->rope, hparams.rope_dim);
    return {};
}

// How the disk's slabs are packed; null: they are not.
Result<std::shared_ptr<const SlabPacking>> EngineCore::choose_cold_packing() const {
    ColdModel cold;
    cold.model = model_.get();
    cold.layout = forward_->layout();
    cold.coding = forward_->config().coding;
    cold.exact_tokens = options_.kv_sink_tokens;
    cold.sidecar = cold.coding.sidecar;
    cold.sidecar_hash = cold.coding.sidecar_hash;
    const bool wanted = packing_needs_sidecar(options_.kv_codec_cold);
    if (wanted && !cold.sidecar && !options_.kv_sidecar.empty()) {
        auto read = codec::read_sidecar(options_.kv_sidecar);
        Status fits = read.ok() ? codec::match_sidecar(read->sidecar, model_->id(), cold.layout)
                                : Status(read.error());
        if (!fits.ok()) return make_error(fits.code(), "--kv-sidecar: " + fits.error().message);
        cold.sidecar = std::make_shared<const codec::Sidecar>(std::move(read->sidecar));
        cold.sidecar_hash = read->hash;
    }
    auto packing = find_cold_packing(options_.kv_codec_cold, cold);
    if (!packing.ok())
        return make_error(packing.code(), "--kv-codec-cold: " + packing.error().message);
    return packing;
}

Status EngineCore::open_cache() {
    auto cold = choose_cold_packing();
    if (!cold.ok()) return cold.error();
    auto tiers = Tiers::open(options_, forward_->layout(), std::move(cold).value());
    if (!tiers.ok()) return tiers.error();
    tiers_ = std::move(tiers).value();
    CacheOptions cache;
    cache.layout = forward_->layout();
    cache.model = model_->id();
    cache.g1_bytes = options_.kv_memory_bytes;
    cache.evict = options_.evict;
    cache.enabled = options_.cache;
    cache.metrics = options_.metrics;
    cache.cost.prefill_ns_per_token = kFirstPrefillNsPerToken;
    cache.step_tokens = std::max(options_.step_tokens, options_.max_running);
    cache.leases_max = options_.max_running;
    auto made = Cache::create(cache, options_.cache ? tiers_->lower() : std::vector<LowerTier>{},
                              *options_.clock, [this] { mailbox_.notify(); });
    if (!made.ok()) {
        Error error = made.error();
        error.message = "--kv-memory: " + error.message;
        return error;
    }
    cache_ = std::move(made).value();
    info_.kv_tokens_max = cache_->lease_tokens_max();
    return {};
}

}  // namespace quire
