// Which way a copy between host and device goes, by a table of what each way takes on this machine.
// Pure host code.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cuda/copy/stage.h"

namespace quire::kernels::cuda {

enum class CopyWay : uint8_t {
    engines,  // a copy engine, fragment by fragment: no multiprocessor
    staged,   // a copy engine to or from a staging buffer, some multiprocessors for moments
    warps,    // multiprocessors alone, all the time
};
inline constexpr int kCopyWays = 3;

// Sizes of fragments that are measured; between them the logarithm of the size is interpolated.
inline constexpr std::array<uint64_t, 5> kCopySizes = {4 << 10, 16 << 10, 64 << 10, 256 << 10,
                                                       1 << 20};

struct CopyTable {
    struct Way {
        double first_s = 0;  // of a copy of one small fragment
        // For fragments of kCopySizes, in the long run. Of the staged way: their size on the
        // device; what a run on the host costs is the engines'.
        std::array<double, kCopySizes.size()> bytes_per_s{};
    };
    Way ways[2][kCopyWays];  // by CopyDirection and CopyWay

    const Way& of(CopyDirection direction, CopyWay way) const {
        return ways[static_cast<int>(direction)][static_cast<int>(way)];
    }
    Way& of(CopyDirection direction, CopyWay way) {
        return ways[static_cast<int>(direction)][static_cast<int>(way)];
    }
};

// One H200 behind PCIe 5 x16: what an engine starts with that does not calibrate.
CopyTable default_copy_table();

// REQUIRES: the table's speeds are above 0.
double predicted_s(const CopyTable& table, CopyDirection direction, CopyWay way,
                   const CopyShape& shape);

// The way that takes fewest multiprocessors among those that take at most a tenth longer than the
// fastest: who computes meanwhile pays for warps. `engines_max`: no more copies than that are
// queued on a copy engine at once.
CopyWay choose(const CopyTable& table, CopyDirection direction, const CopyShape& shape,
               uint64_t engines_max);

}  // namespace quire::kernels::cuda
