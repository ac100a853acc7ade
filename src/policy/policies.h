// The constructors behind the rows of eviction_table(), one file each. Private to src/policy.
#pragma once

#include <cstdint>
#include <memory>

#include "policy/evict.h"

namespace quire {

std::unique_ptr<EvictionPolicy> make_lru(uint32_t capacity);
std::unique_ptr<EvictionPolicy> make_sieve(uint32_t capacity);
std::unique_ptr<EvictionPolicy> make_s3fifo(uint32_t capacity);
std::unique_ptr<EvictionPolicy> make_lfuda(uint32_t capacity);
std::unique_ptr<EvictionPolicy> make_adaptive(uint32_t capacity);

}  // namespace quire
