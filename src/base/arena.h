// Arena: one region of memory straight from the kernel, page-aligned, on huge pages where they are
// to be had, given back whole. Zeroed. Move-only value; the bytes never move. Any thread may touch
// the bytes.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace quire {

struct ArenaOptions {
    size_t bytes = 0;
    const char* what = "memory";  // what it is for, named in the error
    bool huge_pages = true;       // ask for them; ordinary pages are used where refused
    bool reserved_huge = false;   // try the machine's reserved huge pages (hugetlbfs) first
    bool prefault = false;        // back every page now, so that no later access faults or fails
};

class Arena {
 public:
    // The size is rounded up to whole huge pages. full when the machine refuses it (named in the
    // message); invalid for zero bytes.
    static Result<Arena> create(const ArenaOptions& options);

    Arena() = default;
    ~Arena();
    Arena(Arena&& other) noexcept;
    Arena& operator=(Arena&& other) noexcept;

    std::byte* data() const { return data_; }
    size_t size() const { return bytes_; }
    std::span<std::byte> bytes() const { return {data_, bytes_}; }

 private:
    Arena(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}

    std::byte* data_ = nullptr;
    size_t bytes_ = 0;
};

}  // namespace quire
