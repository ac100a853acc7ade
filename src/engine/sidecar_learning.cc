#include "engine/sidecar_learning.h"

#include <filesystem>
#include <utility>

#include "base/log.h"

namespace quire {

SidecarLearning::SidecarLearning(const GgufModel& model, std::string path, uint32_t tokens,
                                 int32_t n_threads)
    : model_(model), path_(std::move(path)), sums_(model, n_threads), writer_("learn", 1, 1) {
    status_.state = SidecarStatus::State::learning;
    status_.tokens_wanted = tokens;
    log::info("sidecar_learning", "learning means from the first {} tokens computed, for {}",
              tokens, path_);
}

void SidecarLearning::begin_step(std::span<const StepSequence> sequences) {
    if (over_) return;
    std::lock_guard lock(mutex_);
    status_.tokens_seen += sums_.arm(sequences, status_.tokens_wanted - status_.tokens_seen);
}

void SidecarLearning::end_step() {
    if (over_) return;
    {
        std::lock_guard lock(mutex_);
        if (status_.tokens_seen < status_.tokens_wanted) return;
    }
    over_ = true;
    auto sidecar = std::make_shared<codec::Sidecar>();
    sidecar->model = model_.id();
    sidecar->layers = codec::sidecar_layers(model_.kv_layout(16));
    sums_.store(sidecar.get());
    sums_.clear();
    const Status handed = writer_.submit([this, sidecar] { write(*sidecar); });
    if (!handed.ok()) note(SidecarStatus::State::failed, "", handed.error().message);
}

void SidecarLearning::write(const codec::Sidecar& sidecar) {
    std::error_code unknown;
    if (std::filesystem::exists(path_, unknown)) {
        log::warn("sidecar_kept", "{} was made by somebody else meanwhile; it is left as it is",
                  path_);
        note(SidecarStatus::State::failed, "", "the file was made by somebody else meanwhile");
        return;
    }
    const auto hash = codec::write_sidecar(path_, sidecar);
    if (!hash.ok()) {
        log::warn("sidecar_not_written",
                  "means were learned but not kept: {}; serving goes on without them, and the next "
                  "start learns again",
                  hash.error().message);
        note(SidecarStatus::State::failed, "", hash.error().message);
        return;
    }
    log::info("sidecar_learned", "means written to {}, hash {}; the next start uses them", path_,
              hash->to_hex());
    note(SidecarStatus::State::learned, hash->to_hex(), "");
}

void SidecarLearning::note(SidecarStatus::State state, std::string hash, std::string why) {
    std::lock_guard lock(mutex_);
    status_.state = state;
    status_.hash = std::move(hash);
    status_.why = std::move(why);
}

SidecarStatus SidecarLearning::status() const {
    std::lock_guard lock(mutex_);
    return status_;
}

}  // namespace quire
