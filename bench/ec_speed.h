// How fast the cold codec ec codes a model's own keys and values on one core, beside computing them
// anew there.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/bench.h"

namespace quire::bench {

// Tokens a second.
struct EcRates {
    double encode = 0, decode = 0;
    double bits = 0;  // a number, as stored
    // Medians of ratios over the prefill of the same turn.
    double encode_ratio = 0, decode_ratio = 0;
};
struct EcSpeed {
    std::string isa;
    double prefill = 0;  // tokens a second, of one core
    EcRates foretold;    // with prediction
    EcRates alone;       // without
};

// What ec needs is learned in the run, from Quire's own documents; what is coded is the end of the
// same text, in blocks of kEcBlockTokens. One thread each, in turns, in time that passes.
Result<EcSpeed> measure_ec(const BenchOptions& options, const BenchModel& model);

inline constexpr uint32_t kEcBlockTokens = 64;
inline constexpr double kEcBits = 2.7;

}  // namespace quire::bench
