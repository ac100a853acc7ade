#include "codec/ec/ec.h"

#include <algorithm>
#include <cmath>

namespace quire::codec::ec {
namespace {

// Where classes meet: 2 to the power of -7/8, -5/8, -3/8 and -1/8.
constexpr double kBetweenClasses[] = {0.54525386633262882, 0.64841977732550483, 0.77110541270397041,
                                      0.91700404320467123};
constexpr int kClassesAnOctave = 4;
constexpr double kRatioMin = 0x1p-30;

template <typename F>
void each_head(const Model& model, const F& f) {
    for (const auto* side : {&model.k, &model.v})
        for (const std::vector<HeadModel>& layer : *side)
            for (const HeadModel& head : layer) f(head);
}

}  // namespace

// Only a division and comparisons: readers and writers on all machines have to agree.
uint32_t class_of(double deviation, double step) {
    int octave = 0;
    double ratio = deviation / step;
    if (!(ratio > kRatioMin)) ratio = kRatioMin;  // no number included
    const double rest = std::frexp(std::min(ratio, 1 / kRatioMin), &octave);
    int index = (octave - 1 - kLowestOctave) * kClassesAnOctave;
    for (const double between : kBetweenClasses) index += rest >= between;
    return static_cast<uint32_t>(std::clamp(index, 0, static_cast<int>(kClasses) - 1));
}

Coder::Coder(const Model& model) : model_(model) {
    for (const ClassModel& one : model.classes) tables_.emplace_back(one.frequencies);
}

double Coder::bits(double step) const {
    double sum = 0, numbers = 0;
    std::array<double, kClasses> entropy;
    for (uint32_t c = 0; c < kClasses; ++c) {
        const double escapes = tables_[c].frequency(0) + tables_[c].frequency(kSymbols - 1);
        entropy[c] = tables_[c].entropy_bits() + 8 * escapes / kProbabilities;
    }
    each_head(model_, [&](const HeadModel& head) {
        for (const float deviation : head.deviations) {
            sum += entropy[class_of(double{deviation}, step * double{head.step})];
            ++numbers;
        }
    });
    return sum / numbers;
}

Coder::Range Coder::steps() const {
    double largest = 1e-20;
    each_head(model_, [&](const HeadModel& head) {
        for (const float deviation : head.deviations)
            largest = std::max(largest, double{deviation} / double{head.step});
    });
    return {largest / 128, largest * 64};
}

double Coder::step_for(double wanted) const {
    auto [low, high] = steps();
    for (int i = 0; i < 60; ++i) {
        const double middle = std::sqrt(low * high);
        (bits(middle) > wanted ? low : high) = middle;
    }
    return std::sqrt(low * high);
}

}  // namespace quire::codec::ec
