// How fast the lossless codec of bf16 pages is on one core, beside zstd on the same bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/isa.h"
#include "base/result.h"

namespace quire::bench {

struct LosslessSpeed {
    double bits = 0;  // a number
    double pack = 0;  // bytes of uncoded words per second, medians
    double unpack = 0;
};

struct BxSpeed {
    const char* isa = "";
    LosslessSpeed bx;    // page by page, the fastest version of this CPU
    LosslessSpeed zstd;  // level 1, many pages at once: what suits it best
    // Medians of paired ratios.
    double pack_ratio = 0;
    double unpack_ratio = 0;
};

struct BxSpeedOptions {
    uint32_t head_dim = 128;
    uint32_t repeats = 5;
    bool quick = false;
    Isa isa = Isa::avx512;  // at most
};

// On pages of 16 tokens whose channels are normal, with deviations that differ as those of a
// model's keys do. full: no memory; bug: words did not come back.
Result<BxSpeed> measure_bx(const BxSpeedOptions& options);

}  // namespace quire::bench
