#include "kernels/cuda/copy/choose.h"

#include <algorithm>
#include <cmath>

namespace quire::kernels::cuda {
namespace {

// Below the first size a fragment costs what one of the first size costs.
double speed_at(const CopyTable::Way& way, double bytes) {
    if (bytes <= kCopySizes.front())
        return way.bytes_per_s.front() * bytes / static_cast<double>(kCopySizes.front());
    if (bytes >= kCopySizes.back()) return way.bytes_per_s.back();
    const auto above = std::ranges::upper_bound(kCopySizes, static_cast<uint64_t>(bytes));
    const auto i = static_cast<size_t>(above - kCopySizes.begin());
    const double low = std::log(static_cast<double>(kCopySizes[i - 1]));
    const double high = std::log(static_cast<double>(kCopySizes[i]));
    const double share = (std::log(bytes) - low) / (high - low);
    return way.bytes_per_s[i - 1] * (1 - share) + way.bytes_per_s[i] * share;
}

double mean(uint64_t bytes, uint64_t n) {
    return static_cast<double>(bytes) / static_cast<double>(std::max<uint64_t>(n, 1));
}

}  // namespace

CopyTable default_copy_table() {
    CopyTable table;
    for (const auto direction : {CopyDirection::to_device, CopyDirection::to_host}) {
        table.of(direction, CopyWay::engines) = {12e-6, {5e9, 30e9, 53e9, 54e9, 54e9}};
        table.of(direction, CopyWay::staged) = {30e-6, {54e9, 54e9, 54e9, 54e9, 54e9}};
        table.of(direction, CopyWay::warps) = {15e-6, {51e9, 51e9, 51e9, 51e9, 51e9}};
    }
    return table;
}

double predicted_s(const CopyTable& table, CopyDirection direction, CopyWay way,
                   const CopyShape& shape) {
    const CopyTable::Way& row = table.of(direction, way);
    const auto bytes = static_cast<double>(shape.bytes);
    if (shape.bytes == 0) return 0;
    if (way == CopyWay::engines)
        return row.first_s + bytes / speed_at(row, mean(shape.bytes, shape.joined));
    const double relayed = bytes / speed_at(row, mean(shape.bytes, shape.fragments));
    if (way == CopyWay::warps) return row.first_s + relayed;
    const double moved =
        bytes / speed_at(table.of(direction, CopyWay::engines), mean(shape.bytes, shape.host_runs));
    return row.first_s + std::max(relayed, moved);
}

CopyWay choose(const CopyTable& table, CopyDirection direction, const CopyShape& shape,
               uint64_t engines_max) {
    double seconds[kCopyWays];
    double fastest = 0;
    for (int way = 0; way < kCopyWays; ++way) {
        seconds[way] = predicted_s(table, direction, static_cast<CopyWay>(way), shape);
        if (way == static_cast<int>(CopyWay::engines) && shape.joined > engines_max)
            seconds[way] = HUGE_VAL;
        fastest = way == 0 ? seconds[0] : std::min(fastest, seconds[way]);
    }
    for (int way = 0; way < kCopyWays; ++way)
        if (seconds[way] <= 1.1 * fastest) return static_cast<CopyWay>(way);
    return CopyWay::warps;
}

}  // namespace quire::kernels::cuda
