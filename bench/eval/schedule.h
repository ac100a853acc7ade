// Widths of the hot family per layer, K and V apart, from measured sensitivity.
//
// A side of a layer coded with b bits moves the model by about s 4^-b (KL, nats); s is measured by
// coding that side alone. Bits go where they lower the sum most.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/eval/candidate.h"
#include "bench/eval/evaluate.h"
#include "codec/sidecar.h"
#include "core/kv_layout.h"
#include "engine/model/schedule_file.h"

namespace quire::bench {

struct Schedule {
    std::vector<uint8_t> k_bits, v_bits;   // [layers], 2 to 8
    std::vector<uint32_t> skip_layers = {};  // ascending: they stay 16 bit

    // Mean over all numbers, a scale byte a row included.
    double bits(uint32_t head_dim) const;
    // The same over layers that are coded.
    double coded_bits(uint32_t head_dim) const;
    bool skips(size_t layer) const;
    // As people read it (engine/model/schedule_file.h), and from there.
    LayerSchedule by_layer() const;
    static Schedule of(const LayerSchedule& schedule);
    // The sidecar's widths, and into one. REQUIRES: it has some.
    static Schedule of(const codec::Sidecar& sidecar);
    void store(codec::Sidecar* sidecar) const;
};

struct Sensitivity {
    std::vector<double> k, v;  // [layers]

    // Of a sidecar that has one, and into one.
    static Sensitivity of(const codec::Sidecar& sidecar);
    void store(codec::Sidecar* sidecar) const;
};

// Codes one side of one layer at a time with kProbeBits on the calibration text, as many of them
// side by side as have room in kProbeMemoryBytes.
inline constexpr int kProbeBits = 4;
inline constexpr uint64_t kProbeMemoryBytes = uint64_t{1} << 29;
Result<Sensitivity> measure_sensitivity(const GgufModel& model, const EvalOptions& options);
// What it will tell options.computed in all.
uint64_t sensitivity_tokens(const GgufModel& model, const EvalOptions& options);

// The best widths for at most `bits` a number.
Schedule allocate(const Sensitivity& sensitivity, double bits, uint32_t head_dim);

// The same among those that are served as they are: join_widths() (engine/model/joined_widths.h)
// would change nothing. Layers of `skip` have no part in it: `bits` are those of the others.
// REQUIRES: they are the layout's, and not all of them.
Schedule allocate_joined(const Sensitivity& sensitivity, double bits, uint32_t head_dim,
                         const KvLayout& layout, const std::vector<uint32_t>& skip = {});

// The name says which layers are skipped.
std::unique_ptr<Candidate> scheduled_candidate(std::string name, Schedule schedule);

}  // namespace quire::bench
