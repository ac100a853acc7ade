#include "base/arena.h"

#include <cerrno>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include <sys/mman.h>

#include "base/units.h"

namespace quire {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr int kProtection = PROT_READ | PROT_WRITE;
constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

Error refused(size_t bytes, const char* what, int error_number) {
    return make_error(Code::full,
                      "the machine refuses " + format_bytes(bytes) + " (" + std::to_string(bytes) +
                          " bytes) for " + what + ": " +
                          std::generic_category().message(error_number) + "; ask for less",
                      error_number);
}

// A region that starts on a huge page, by mapping one page more and giving the ends back.
std::byte* map_aligned(size_t bytes) {
    void* mapped = mmap(nullptr, bytes + kHugePageBytes, kProtection, kFlags, -1, 0);
    if (mapped == MAP_FAILED) return nullptr;
    auto* start = static_cast<std::byte*>(mapped);
    const size_t before = (0 - reinterpret_cast<uintptr_t>(start)) % kHugePageBytes;
    if (before > 0) munmap(start, before);
    munmap(start + before + bytes, kHugePageBytes - before);
    return start + before;
}

}  // namespace

Result<Arena> Arena::create(const ArenaOptions& options) {
    if (options.bytes == 0) return make_error(Code::invalid, "an arena of zero bytes");
    if (options.bytes > std::numeric_limits<size_t>::max() / 2)
        return refused(options.bytes, options.what, ENOMEM);
    // Whole huge pages, so that the last one is not shared with anything else.
    const size_t bytes = (options.bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
    if (options.reserved_huge) {
        // Without MAP_NORESERVE: a page that is not there is refused now, not by a signal later.
        const int flags = (kFlags & ~MAP_NORESERVE) | MAP_HUGETLB;
        void* mapped = mmap(nullptr, bytes, kProtection, flags, -1, 0);
        if (mapped != MAP_FAILED) return Arena(static_cast<std::byte*>(mapped), bytes);
    }
    std::byte* data = map_aligned(bytes);
    if (data == nullptr) return refused(bytes, options.what, errno);
    Arena arena(data, bytes);
    if (options.huge_pages) madvise(data, bytes, MADV_HUGEPAGE);
    // EINVAL: a kernel before 5.14, where pages are backed when touched.
    if (options.prefault && madvise(data, bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
        return refused(bytes, options.what, errno);
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
