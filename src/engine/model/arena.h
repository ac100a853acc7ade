// One block of page-aligned, zeroed memory in huge pages where the kernel gives them. Movable
// owner.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace quire {

class Arena {
 public:
    // full: the machine has not that much memory; the message names `what`.
    static Result<Arena> create(size_t bytes, const char* what);
    Arena() = default;
    ~Arena();
    Arena(Arena&& other) noexcept;
    Arena& operator=(Arena&& other) noexcept;

    std::byte* data() const { return data_; }
    size_t size() const { return bytes_; }

 private:
    std::byte* data_ = nullptr;
    size_t bytes_ = 0;
};

}  // namespace quire
