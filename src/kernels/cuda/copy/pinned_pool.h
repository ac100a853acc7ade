// Memory of the host that a device reads and writes by itself: on the device's NUMA node, in huge
// pages where the system has them, locked and registered slice by slice.
//
// One contiguous range; who uses which part of it is not this class's business. One copy of a copy
// engine must not cross a slice's end: a registration ends there. Slices lie at multiples of
// their own size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/result.h"

namespace quire::kernels::cuda {

// At multiples of it a copy by a copy engine is cut, whatever memory it reads.
inline constexpr uint64_t kPinnedSliceBytes = uint64_t{1} << 30;

struct PinnedPoolOptions {
    uint64_t bytes = 0;                        // rounded up to whole huge pages
    uint64_t slice_bytes = kPinnedSliceBytes;  // a power of two, at least 2 MiB
    int device = 0;
    bool huge_pages = true;
};

class PinnedPool {
 public:
    // invalid: no bytes, or a slice that is no power of two or smaller than a huge page.
    // io: the system has not that much memory to map. full: it cannot all be locked.
    // unsupported: there is no such device.
    static Result<std::unique_ptr<PinnedPool>> create(const PinnedPoolOptions& options);

    // REQUIRES: nothing queued on any device reads or writes it any more.
    ~PinnedPool();
    PinnedPool(const PinnedPool&) = delete;
    PinnedPool& operator=(const PinnedPool&) = delete;

    std::byte* data() const { return data_; }  // the same address on the device
    uint64_t bytes() const { return bytes_; }
    uint64_t slice_bytes() const { return slice_bytes_; }
    bool has_huge_pages() const { return huge_; }  // reserved ones; else the kernel may give some
    int numa_node() const { return numa_node_; }   // -1: not known, or only one

 private:
    PinnedPool() = default;
    Status map(bool huge_pages);
    Status register_slices();

    std::byte* data_ = nullptr;
    uint64_t bytes_ = 0;
    uint64_t slice_bytes_ = 0;
    uint64_t registered_bytes_ = 0;
    bool huge_ = false;
    int numa_node_ = -1;
};

}  // namespace quire::kernels::cuda
