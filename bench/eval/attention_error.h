// How far attention's output moves, layer by layer, when the cache is coded. The error is the one
// that the model sees: a layer's queries and new keys already carry what earlier layers did.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/forward.h"

namespace quire::bench {

class AttentionError final : public AttentionProbe {
 public:
    AttentionError(size_t layers, size_t candidates)
        : exact_(layers), sums_(candidates, std::vector<Sums>(layers)) {}

    // Whose step comes next. A candidate's is compared with the exact one before it.
    void expect_exact() { next_ = kExact; }
    void expect(size_t candidate) { next_ = candidate; }
    void expect_nothing() { next_ = kNothing; }

    void attended(uint32_t layer, std::span<const float> out) override;

    // [layers] root of the error's mean square over that of the exact output.
    std::vector<double> relative_rms(size_t candidate) const;

 private:
    static constexpr size_t kNothing = ~size_t{0};
    static constexpr size_t kExact = kNothing - 1;
    struct Sums {
        double error = 0, whole = 0;
    };

    size_t next_ = kNothing;
    std::vector<std::vector<float>> exact_;  // [layers] of the span at hand
    std::vector<std::vector<Sums>> sums_;    // [candidates][layers]
};

}  // namespace quire::bench
