// The codec ec as a candidate: "ec:2.7", at so many bits a number as stored.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/eval/candidate.h"
#include "codec/sidecar.h"
#include "engine/model/gguf_model.h"

namespace quire::bench {

// The bits of a name of that form, 0.5 to 8; nothing: another candidate's name.
std::optional<double> ec_bits(const std::string& name);

// One a name, all of them such names. The sidecar is the model's. miss: it has nothing for ec.
Result<std::vector<std::unique_ptr<Candidate>>> ec_candidates(
    const GgufModel& model, const codec::Sidecar& sidecar, const std::vector<std::string>& names);

}  // namespace quire::bench
