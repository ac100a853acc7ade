// The blocks that the crash test's two processes agree on. Header only.
#pragma once

#include "tier/testing/sync_store.h"

namespace quire::testing {

inline constexpr uint64_t kCrashBatch = 8;

// 8 KiB, in chains of 16.
inline AlignedBytes crash_block(uint64_t number) {
    return make_slab(number, number % 16 == 0 ? 0 : number - 1, 4096, 1);
}

}  // namespace quire::testing
