// LazyArray: a fixed-capacity array of plain values whose pages cost nothing until they are
// touched.
//
// Reserves address space for the whole capacity once, so elements never move and growing needs no
// copy; the kernel hands out zeroed pages at first touch (2 MiB ones where it offers them). Used
// for tables that are bounded by a configured maximum but usually hold less.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/result.h"

namespace quire {

// Address space for one array; unmapped on destruction.
class LazyPages {
 public:
    LazyPages() = default;
    ~LazyPages();
    LazyPages(LazyPages&& other) noexcept;
    LazyPages& operator=(LazyPages&& other) noexcept;

    // full when the system refuses the reservation.
    static Result<LazyPages> reserve(size_t bytes);

    void* data() const { return data_; }
    size_t bytes() const { return bytes_; }
    // What `used` leading bytes cost once touched, page rounding included.
    size_t resident_bytes(size_t used) const;

 private:
    void* data_ = nullptr;
    size_t bytes_ = 0;
};

template <typename T>
class LazyArray {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
    static Result<LazyArray> reserve(size_t capacity) {
        auto pages = LazyPages::reserve(capacity * sizeof(T));
        if (!pages.ok()) return pages.error();
        LazyArray array;
        array.pages_ = std::move(*pages);
        array.data_ = static_cast<T*>(array.pages_.data());
        return array;
    }

    T& operator[](size_t i) { return data_[i]; }
    const T& operator[](size_t i) const { return data_[i]; }
    T* data() { return data_; }
    const T* data() const { return data_; }
    size_t resident_bytes(size_t used) const { return pages_.resident_bytes(used * sizeof(T)); }

 private:
    LazyPages pages_;
    T* data_ = nullptr;
};

}  // namespace quire
