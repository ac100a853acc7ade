// The codec ec as a candidate: "ec:2.7", at about so many bits a number; "ec:1.5+2", in a base and
// a refinement of so many (codec/ec/layered.h); "ec:2.7:alone", no layer foretold from another.
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

struct EcBits {
    double base = 0;
    double more = 0;  // 0: a block in one part
    bool alone = false;
};
// The bits of a name of that form, 0.5 to 8 each; nothing: another candidate's name.
std::optional<EcBits> ec_bits(const std::string& name);

// One a name, all of them such names. The sidecar is the model's. Layers of `skip` stay 16 bit, and
// those behind them are foretold from none. miss: it has nothing for ec.
Result<std::vector<std::unique_ptr<Candidate>>> ec_candidates(
    const GgufModel& model, const codec::Sidecar& sidecar, const std::vector<std::string>& names,
    const std::vector<uint32_t>& skip = {});

}  // namespace quire::bench
