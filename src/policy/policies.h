// The constructors behind the rows of eviction_table(), one file each. Private to src/policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "policy/evict.h"

namespace quire {

// Repeats `scan`, which takes victims in one pass, until it has enough or a pass takes nothing: a
// parent may have been passed by before its last child went.
template <typename Scan>
size_t scan_until_dry(std::span<uint32_t> out, Scan scan) {
    size_t taken = 0;
    while (taken < out.size()) {
        const size_t got = scan(out.subspan(taken));
        if (got == 0) break;
        taken += got;
    }
    return taken;
}

std::unique_ptr<EvictionPolicy> make_lru(uint32_t capacity);
std::unique_ptr<EvictionPolicy> make_sieve(uint32_t capacity);
std::unique_ptr<EvictionPolicy> make_s3fifo(uint32_t capacity);
std::unique_ptr<EvictionPolicy> make_lfuda(uint32_t capacity);
std::unique_ptr<EvictionPolicy> make_adaptive(uint32_t capacity);

}  // namespace quire
