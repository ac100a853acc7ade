#include "engine/model/arena.h"

#include <string>
#include <utility>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

namespace quire {

Result<Arena> Arena::create(size_t bytes, const char* what) {
    constexpr size_t kHugePage = size_t{2} << 20;
    const size_t rounded = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    void* p = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return make_error(Code::full,
                          "cannot allocate " + std::to_string(bytes) + " bytes for " + what + ": " +
                              strerror(errno),
                          errno);
    madvise(p, rounded, MADV_HUGEPAGE);  // a hint: refusal costs speed only
    Arena arena;
    arena.data_ = static_cast<std::byte*>(p);
    arena.bytes_ = rounded;
    return arena;
}

Arena::~Arena() {
    if (data_ != nullptr) munmap(data_, bytes_);
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

}  // namespace quire
