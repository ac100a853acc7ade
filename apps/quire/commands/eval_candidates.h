// The caches that `quire eval` judges, from its flags: first whatever can be said without the
// model, then what needs it, last what takes long.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/quire/commands/eval_measures.h"
#include "apps/quire/commands/eval_tokens.h"
#include "base/result.h"
#include "bench/eval/candidate.h"
#include "bench/eval/evaluate.h"
#include "codec/sidecar.h"
#include "engine/model/gguf_model.h"

namespace quire::commands {

struct EvalFlags {
    std::string model;
    TextFlags text;
    std::string svg;
    std::vector<std::string> caches;
    std::vector<uint32_t> skip_layers;
    std::vector<double> schedules;
    std::string schedule_file;
    std::string sidecar;
    std::string save_schedule;
    bool json = false;
    MeasureFlags measures;
    bool sinks_given = false;
    bench::EvalOptions options;
};

using Candidates = std::vector<std::unique_ptr<bench::Candidate>>;

// Names, and that files are there, sound, and can be written; the sidecar into `sidecar`.
// Candidates that need no model. Errors name what is wrong and what would do.
Result<Candidates> find_candidates(const EvalFlags& flags, codec::ReadSidecar* sidecar);

// What candidates take from the sidecar, and those that need the model, but for schedules. Those
// that its rows do not fit are an error when they were asked for, and left out otherwise. Computes
// nothing.
Status add_of_model(const EvalFlags& flags, const GgufModel& model, Candidates* candidates);

// Whether the sidecar knows it; otherwise it has to be measured.
bool knows_sensitivity(const EvalFlags& flags);

// Schedules for the wanted bits, from the sidecar's sensitivity or one that is measured on the
// calibration text; the last one is saved.
Status add_schedules(const EvalFlags& flags, const GgufModel& model, Candidates* candidates);

}  // namespace quire::commands
