#include "bench/eval/candidate.h"
#include "core/half.h"

namespace quire::bench {
namespace {

class NoiseFloor final : public Candidate {
 public:
    std::string name() const override { return "bf16"; }
    double bits(uint32_t) const override { return 16; }
    bool noise_floor() const override { return true; }
    void apply(const KvSpan& span) const override {
        const size_t n = size_t{span.tokens} * span.head_dim;
        for (float* side : {span.k, span.v})
            for (size_t i = 0; i < n; ++i) side[i] = bf16_to_f32(f32_to_bf16(side[i]));
    }
};

}  // namespace

std::unique_ptr<Candidate> noise_floor_candidate() {
    return std::make_unique<NoiseFloor>();
}

}  // namespace quire::bench
