#include "base/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace quire {
namespace {
constexpr size_t kHugePageBytes = size_t{2} << 20;
}

Result<Arena> Arena::create(const ArenaOptions& options) {
    if (options.bytes == 0) return make_error(Code::invalid, "an arena of zero bytes");
    // Whole huge pages, so that the last one is not shared with anything else.
    const size_t bytes = (options.bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
    void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return make_error(Code::full, "the machine refuses " + std::to_string(bytes) +
                                          " bytes for " + options.what + ": " +
                                          std::strerror(errno),
                          errno);
    if (options.huge_pages) madvise(mapped, bytes, MADV_HUGEPAGE);
    if (options.prefault) madvise(mapped, bytes, MADV_POPULATE_WRITE);
    return Arena(static_cast<std::byte*>(mapped), bytes);
}

Arena::~Arena() {
    if (data_) munmap(data_, bytes_);
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

}  // namespace quire
