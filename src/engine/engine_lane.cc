#include "engine/engine_lane.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/model/cold_packing.h"
#include "engine/model/schedule_file.h"

namespace quire {
namespace {

constexpr int32_t kLogitRowsMax = 64;

Error about(const char* option, Error error) {
    error.message = std::string(option) + ": " + error.message;
    return error;
}

Result<KvCoding> choose_coding(const EngineOptions& options, const GgufModel& model,
                               const std::string& codec, const char* option) {
    const KvLayout plain = model.kv_layout(kCodedBlockTokens, options.kv_element);
    auto coding = find_kv_coding(codec, options.kv_sink_tokens, plain);
    if (!coding.ok()) return about(option, coding.error());
    if (!coding->any()) return coding;
    const auto most = static_cast<uint32_t>(model.hparams().context_tokens);
    const Status spans =
        set_recent(&coding.value(), options.kv_recent_tokens,
                   options.context_tokens > 0 ? std::min(options.context_tokens, most) : most);
    if (!spans.ok()) return about("--kv-recent-tokens", spans.error());
    std::vector<uint32_t> skipped = options.kv_skip_layers;
    LayerSchedule schedule;
    const bool from_file = coding->scheduled && !options.kv_schedule.empty();
    if (from_file) {
        const auto layers = static_cast<size_t>(model.hparams().n_layers);
        auto read = read_schedule(options.kv_schedule, layers);
        if (!read.ok()) return about("--kv-schedule", read.error());
        schedule = std::move(read).value();
        skipped.insert(skipped.end(), schedule.skip_layers.begin(), schedule.skip_layers.end());
    }
    const Status kept = keep_exact(&coding.value(), skipped, plain);
    if (!kept.ok()) return about("--kv-skip-layers", kept.error());
    if (from_file) QUIRE_TRY(take_widths(&coding.value(), schedule.bits, plain));
    if (options.kv_sidecar.empty()) {
        if (!coding->scheduled || from_file) return coding;
        return make_error(Code::invalid,
                          std::string(option) +
                              " schedule takes its widths from --kv-schedule FILE or --kv-sidecar "
                              "FILE; make one "
                              "with quire calibrate " +
                              options.model_path);
    }
    const Status added = add_sidecar(&coding.value(), options.kv_sidecar, model.id(), plain);
    if (!added.ok()) return about("--kv-sidecar", added.error());
    const HParams& hparams = model.hparams();
    add_turns(&coding.value(), hparams.family->rope, hparams.rope_dim);
    return coding;
}

// A codec decides how many tokens a block has. `scratch`: of the lanes before, which never step
// while this one does; null: it is the first.
Result<std::unique_ptr<Lane>> open_lane(const EngineOptions& options, const GgufModel& model,
                                        KvCoding coding, KvObserver* observer,
                                        std::shared_ptr<StepScratch> scratch) {
    ForwardConfig config;
    config.n_threads = options.threads;
    config.block_tokens = coding.any() ? kCodedBlockTokens : options.block_tokens;
    config.element = options.kv_element;
    config.coding = std::move(coding);
    config.max_rows = static_cast<int32_t>(std::max(options.step_tokens, options.max_running));
    config.max_sequences = static_cast<int32_t>(options.max_running);
    config.max_logit_rows = std::max(kLogitRowsMax, static_cast<int32_t>(options.max_running));
    config.attention = options.attention;
    config.observer = observer;
    config.scratch = std::move(scratch);
    auto forward = Forward::create(model, config);
    if (!forward.ok()) return forward.error();
    auto lane = std::make_unique<Lane>();
    lane->forward = std::move(forward).value();
    const KvLayout& layout = lane->forward->layout();
    lane->info.name = config.coding.name();
    lane->info.block_tokens = layout.block_tokens;
    lane->info.sink_tokens = layout.sink_tokens;
    lane->info.recent_tokens = layout.coded() ? config.coding.recent_tokens : 0;
    lane->info.exact_layers = config.coding.exact_layers;
    lane->info.bytes_per_token = layout.bytes_per_token();
    lane->info.bytes_4096 = layout.sequence_bytes(4096);
    return lane;
}

Result<std::shared_ptr<const SlabPacking>> choose_packing(const EngineOptions& options,
                                                          const std::string& name,
                                                          const char* option,
                                                          const GgufModel& model,
                                                          const LanePlan& plan) {
    ColdModel cold;
    cold.model = &model;
    cold.layout = plan.layout;
    cold.coding = plan.coding;
    cold.exact_tokens = options.kv_sink_tokens;
    cold.sidecar = cold.coding.sidecar;
    cold.sidecar_hash = cold.coding.sidecar_hash;
    const bool wanted = packing_needs_sidecar(name);
    if (wanted && !cold.sidecar && !options.kv_sidecar.empty()) {
        auto read = codec::read_sidecar(options.kv_sidecar);
        if (!read.ok()) return about("--kv-sidecar", read.error());
        const Status fits = codec::match_sidecar(read->sidecar, model.id(), cold.layout);
        if (!fits.ok()) return about("--kv-sidecar", fits.error());
        cold.sidecar = std::make_shared<const codec::Sidecar>(std::move(read->sidecar));
        cold.sidecar_hash = read->hash;
    }
    auto packing = find_cold_packing(name, cold);
    if (!packing.ok()) return about(option, packing.error());
    return packing;
}

Result<LanePlan> plan_lane(const EngineOptions& options, const GgufModel& model, KvCoding coding) {
    LanePlan plan;
    plan.coding = std::move(coding);
    const bool coded = plan.coding.any();
    plan.layout =
        model.kv_layout(coded ? kCodedBlockTokens : options.block_tokens, options.kv_element);
    if (coded) plan.layout = plan.coding.split(plan.layout);
    if (options.host_memory_bytes > 0) {
        auto host = choose_packing(options, options.kv_codec_host, "--kv-codec-host", model, plan);
        if (!host.ok()) return host.error();
        plan.host = std::move(host).value();
    }
    if (options.disk_dir.empty()) return plan;
    auto cold = choose_packing(options, options.kv_codec_cold, "--kv-codec-cold", model, plan);
    if (!cold.ok()) return cold.error();
    plan.cold = std::move(cold).value();
    return plan;
}

}  // namespace

Result<std::vector<LanePlan>> plan_lanes(const EngineOptions& options, const GgufModel& model) {
    std::vector<LanePlan> plans;
    std::vector<std::string> names{options.kv_codec};
    names.insert(names.end(), options.kv_codecs_allowed.begin(), options.kv_codecs_allowed.end());
    for (size_t i = 0; i < names.size(); ++i) {
        const char* option = i == 0 ? "--kv-codec" : "--kv-codec-allow";
        auto coding = choose_coding(options, model, names[i], option);
        if (!coding.ok()) return coding.error();
        // Some codecs have several names.
        const bool known = std::ranges::any_of(
            plans, [&](const LanePlan& plan) { return plan.coding.name() == coding->name(); });
        if (known) continue;
        if (plans.size() == kLanesMax)
            return make_error(Code::invalid, "--kv-codec-allow: a server has at most " +
                                                 std::to_string(kLanesMax) +
                                                 " codecs, that of --kv-codec included");
        auto plan = plan_lane(options, model, std::move(coding).value());
        if (!plan.ok()) return plan.error();
        plans.push_back(std::move(plan).value());
    }
    return plans;
}

Result<std::vector<std::unique_ptr<Lane>>> open_lanes(const EngineOptions& options,
                                                      const GgufModel& model,
                                                      const std::vector<LanePlan>& plans,
                                                      KvObserver* observer) {
    std::vector<std::unique_ptr<Lane>> lanes;
    for (const LanePlan& plan : plans) {
        auto lane = open_lane(options, model, plan.coding, observer,
                              lanes.empty() ? nullptr : lanes.front()->forward->scratch());
        if (!lane.ok()) return lane.error();
        lanes.push_back(std::move(lane).value());
    }
    return lanes;
}

}  // namespace quire
