#include "index/lazy_array.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include <sys/mman.h>

namespace quire {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kHugeBytes = 2 << 20;
// Below this, huge pages would waste more than they save.
constexpr size_t kHugeFromBytes = 4 * kHugeBytes;

size_t round_up(size_t bytes, size_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

}  // namespace

LazyPages::~LazyPages() {
    if (data_ != nullptr) munmap(data_, bytes_);
}

LazyPages::LazyPages(LazyPages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

LazyPages& LazyPages::operator=(LazyPages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

Result<LazyPages> LazyPages::reserve(size_t bytes) {
    LazyPages pages;
    pages.bytes_ = round_up(std::max<size_t>(bytes, 1), kPageBytes);
    void* data = mmap(nullptr, pages.bytes_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
        return make_error(Code::full,
                          "cannot reserve " + std::to_string(pages.bytes_) +
                              " bytes of address space for an index table; lower its maximum or "
                              "raise the process's address space limit",
                          errno);
    }
    pages.data_ = data;
    // Advice only: without huge pages the table works, with more TLB misses.
    if (pages.bytes_ >= kHugeFromBytes) madvise(data, pages.bytes_, MADV_HUGEPAGE);
    return pages;
}

size_t LazyPages::resident_bytes(size_t used) const {
    const size_t unit = bytes_ >= kHugeFromBytes ? kHugeBytes : kPageBytes;
    return std::min(bytes_, round_up(used, unit));
}

}  // namespace quire
