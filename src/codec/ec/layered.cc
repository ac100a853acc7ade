#include "codec/ec/layered.h"

#include <algorithm>
#include <cmath>

namespace quire::codec::ec {
namespace {

// How far a component is off after rounding to a step: evenly within it, but no more than it was.
float deviation_after(float deviation, double step) {
    const double variance = std::max(double{deviation} * double{deviation}, 1e-30);
    return static_cast<float>(std::sqrt(1 / (1 / variance + 12 / (step * step))));
}

// What is left after the base: nothing foretells it, and its mean is 0.
Model refinement_of(const Model& model, double base_step) {
    Model left = model;
    for (auto* side : {&left.k, &left.v})
        for (std::vector<HeadModel>& layer : *side)
            for (HeadModel& head : layer) {
                std::ranges::fill(head.mean, 0.0f);
                head.weights.clear();
                for (float& deviation : head.deviations)
                    deviation = deviation_after(deviation, base_step * double{head.step});
            }
    return left;
}

}  // namespace

Result<LayeredCoder> LayeredCoder::create(const Model& model, const std::vector<uint16_t>& chain,
                                          double base_bits, double more_bits) {
    auto base = BlockCoder::create(model, chain, base_bits);
    if (!base.ok()) return base.error();
    const Model left = refinement_of(model, Coder(model).step_for(base_bits));
    auto refinement = BlockCoder::create(left, chain, more_bits);
    if (!refinement.ok()) return refinement.error();
    return LayeredCoder(std::move(base).value(), std::move(refinement).value());
}

Status LayeredCoder::decode_base(std::span<const std::byte> bytes, uint32_t tokens,
                                 LayeredScratch* scratch) const {
    scratch->rows.resize(base_.layers());
    return base_.decode(
        bytes, tokens,
        [&](uint32_t layer, const LayerRows& rows) {
            std::vector<float>& kept = scratch->rows[layer];
            kept.assign(rows.k.begin(), rows.k.end());
            kept.insert(kept.end(), rows.v.begin(), rows.v.end());
        },
        &scratch->block);
}

uint32_t LayeredCoder::encode(uint32_t tokens, const BlockCoder::Rows& read,
                              LayeredScratch* scratch, std::vector<std::byte>* base,
                              std::vector<std::byte>* refinement) const {
    scratch->base.clear();
    const uint32_t not_finite = base_.encode(tokens, read, &scratch->block, &scratch->base);
    base->insert(base->end(), scratch->base.begin(), scratch->base.end());
    const Status own = decode_base(scratch->base, tokens, scratch);
    refinement_.encode(
        tokens,
        [&](uint32_t layer, const LayerRows& rows) {
            read(layer, rows);
            const float* coarse = scratch->rows[layer].data();
            for (const std::span<float>& side : {rows.k, rows.v})
                // A number that is not finite stays so, and its row as the base has it.
                for (float& x : side) x -= own.ok() ? *coarse++ : 0;
        },
        &scratch->block, refinement);
    return not_finite;
}

Status LayeredCoder::decode(std::span<const std::byte> base, std::span<const std::byte> refinement,
                            uint32_t tokens, const BlockCoder::Rows& landed,
                            LayeredScratch* scratch) const {
    QUIRE_TRY(decode_base(base, tokens, scratch));
    return refinement_.decode(
        refinement, tokens,
        [&](uint32_t layer, const LayerRows& rows) {
            const float* coarse = scratch->rows[layer].data();
            for (const std::span<float>& side : {rows.k, rows.v})
                for (float& x : side) x += *coarse++;
            landed(layer, rows);
        },
        &scratch->block);
}

}  // namespace quire::codec::ec
