#include "bench/eval/ec_tables.h"

#include <algorithm>
#include <cmath>

namespace quire::bench {
namespace {

using codec::ec::ClassModel;

constexpr size_t kPoolNumbers = 1 << 18;
constexpr int32_t kLargest = codec::ec::kLargest;

// How numbers of deviation 1 fall when they are `scale` times as large and rounded.
ClassModel learn_class(const std::vector<float>& pool, double scale) {
    std::array<double, codec::ec::kSymbols> counts;
    counts.fill(0.02);  // nothing is impossible
    double short_one = 0, short_more = 0, ones = 0, more = 0;
    for (const float x : pool) {
        const double size = std::fabs(double{x}) * scale;
        const double rounded = std::min(std::round(size), double{kLargest});
        const auto integer = static_cast<int32_t>(rounded);
        // Both signs: what is learned is symmetric.
        counts[static_cast<size_t>(kLargest + integer)] += 0.5;
        counts[static_cast<size_t>(kLargest - integer)] += 0.5;
        if (integer == 1) {
            short_one += 1 - size;
            ++ones;
        } else if (integer > 1 && integer < kLargest) {
            short_more += rounded - size;
            ++more;
        }
    }
    ClassModel out{.frequencies = codec::ec::RansTable::fit(counts)};
    const auto shrink = [](double sum, double n) {
        return static_cast<float>(std::clamp(sum / (n + 8), 0.0, 0.5));
    };
    out.shrink_one = shrink(short_one, ones);
    out.shrink_more = shrink(short_more, more);
    return out;
}

}  // namespace

ClassPool::ClassPool(const codec::Sidecar& sidecar) {
    size_t heads = 0;
    for (const codec::SidecarLayer& layer : sidecar.layers) heads += 2 * layer.kv_heads;
    numbers_of_head_ = kPoolNumbers / std::max<size_t>(1, heads);
}

void ClassPool::add(const std::vector<float>& projections, const codec::ec::HeadModel& head) {
    const size_t n = head.head_dim, tokens = projections.size() / n;
    const size_t wanted = std::clamp<size_t>(numbers_of_head_ / n, 1, tokens);
    for (size_t i = 0; i < wanted; ++i) {
        const float* row = projections.data() + i * tokens / wanted * n;
        for (size_t c = 0; c < n; ++c)
            if (head.deviations[c] > 0) pool_.push_back(row[c] / head.deviations[c]);
    }
}

std::vector<ClassModel> ClassPool::classes() const {
    std::vector<ClassModel> out;
    for (uint32_t c = 0; c < codec::ec::kClasses; ++c)
        out.push_back(learn_class(pool_, std::exp2(codec::ec::kLowestClass + c / 4.0)));
    return out;
}

}  // namespace quire::bench
