// What every TierStore promises (tier.h), as checks that any test program can run: the one of
// GoogleTest beside the stores, and the one of a machine that has CUDA's compilers alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/kv_layout.h"
#include "tier/tier.h"

namespace quire::testing {

// A store and what it stands on, which goes after it.
struct StoreUnderTest {
    std::shared_ptr<void> stands_on;
    std::unique_ptr<TierStore> inner;  // that `store` is a layer over, if it is
    std::unique_ptr<TierStore> store;
};
using MakeStore = std::function<StoreUnderTest(uint64_t capacity_bytes, uint32_t queue_max)>;

// What a check throws when a promise is broken.
struct NotAsPromised {
    std::string what;
};

struct ConformanceCheck {
    const char* name;
    void (*run)(const MakeStore& make);
};
std::span<const ConformanceCheck> conformance_checks();

// Of the slabs that the checks put: two layers of 8 KiB, as make_slab() makes them by default.
KvLayout conformance_layout();

}  // namespace quire::testing
