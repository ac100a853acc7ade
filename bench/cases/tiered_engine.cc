#include "bench/cases/tiered_engine.h"

#include "bench/generate.h"

namespace quire::bench {
namespace {

constexpr int64_t kDrainWait_ns = int64_t{60} * 1'000'000'000;

}  // namespace

TieredEngine::TieredEngine(const BenchOptions& options, const BenchModel& model,
                           const std::string& dir) {
    options_.model_path = model.path;
    options_.attention = options.attention;
    options_.kv_codec = options.kv_codec;
    options_.threads = static_cast<int>(options.threads);
    options_.disk_dir = dir + "/" + model.name;
    options_.kv_memory_bytes = uint64_t{1} << 30;
    options_.host_memory_bytes = uint64_t{1} << 30;
    options_.disk_bytes = uint64_t{8} << 30;
}

Status TieredEngine::open() {
    auto opened = open_engine(options_);
    if (!opened.ok()) return opened.error();
    engine_ = std::move(opened).value();
    return {};
}

void TieredEngine::close() {
    if (engine_) engine_->drain(kDrainWait_ns);
    engine_.reset();
}

Status TieredEngine::restart() {
    close();
    return open();
}

Status TieredEngine::leave_only(Tier tier) {
    // From the top down: each flush first finishes copying to the next tier.
    for (Tier above : {Tier::g1, Tier::g2}) {
        if (above >= tier) break;
        if (auto dropped = engine_->flush({above}, true); !dropped.ok()) return dropped.error();
    }
    return {};
}

Status TieredEngine::warm_up() {
    auto tokens = engine_->tokenize("One, two, three, four, five, six, seven.", true, {});
    if (!tokens.ok()) return tokens.error();
    GenerateRequest request = greedy_request(std::move(tokens).value(), 2);
    request.cache_salt = "warm-up";
    auto answer = generate(*engine_, std::move(request), kAnswerWait_ns);
    return answer.ok() ? Status{} : Status(answer.error());
}

}  // namespace quire::bench
