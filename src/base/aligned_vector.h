// A vector whose numbers begin on a cache line: a register as wide as a line is then loaded from
// one line, not from two.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace quire {

inline constexpr size_t kCacheLineBytes = 64;

template <typename T>
struct CacheLineAllocator {
    using value_type = T;
    CacheLineAllocator() = default;
    template <typename U>
    explicit CacheLineAllocator(const CacheLineAllocator<U>&) {}

    T* allocate(size_t n) {
        return static_cast<T*>(
            ::operator new(n * sizeof(T), std::align_val_t{kCacheLineBytes}));
    }
    void deallocate(T* p, size_t) { ::operator delete(p, std::align_val_t{kCacheLineBytes}); }
    bool operator==(const CacheLineAllocator&) const = default;
};

template <typename T>
using AlignedVector = std::vector<T, CacheLineAllocator<T>>;

}  // namespace quire
