#include "kernels/cuda/copy/pinned_pool.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <string>

#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace quire::kernels::cuda {
namespace {

constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
constexpr int kPreferNode = 1;  // MPOL_PREFERRED: better far memory than none

// -1: not known.
int node_of(int device) {
    char id[32] = {};
    if (cudaDeviceGetPCIBusId(id, sizeof id, device) != cudaSuccess) return -1;
    std::string path = "/sys/bus/pci/devices/" + std::string(id) + "/numa_node";
    std::ranges::transform(path, path.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::FILE* file = std::fopen(path.c_str(), "r");
    if (file == nullptr) return -1;
    int node = -1;
    if (std::fscanf(file, "%d", &node) != 1) node = -1;
    std::fclose(file);
    return node;
}

void prefer_node(void* data, uint64_t bytes, int node) {
    std::array<unsigned long, 16> mask{};
    constexpr unsigned kBits = 8 * sizeof(unsigned long);
    if (node < 0 || static_cast<unsigned>(node) >= mask.size() * kBits) return;
    mask[static_cast<unsigned>(node) / kBits] = 1ul << (static_cast<unsigned>(node) % kBits);
    // A kernel without NUMA refuses; then every page is as near as any other.
    syscall(SYS_mbind, data, bytes, kPreferNode, mask.data(), mask.size() * kBits, 0);
}

Error unmapped(uint64_t bytes) {
    return make_error(Code::io, "cannot map " + std::to_string(bytes) + " bytes", errno);
}

uint64_t round_up(uint64_t x, uint64_t to) {
    return (x + to - 1) / to * to;
}

}  // namespace

Result<std::unique_ptr<PinnedPool>> PinnedPool::create(const PinnedPoolOptions& options) {
    if (options.bytes == 0 || options.bytes > uint64_t{1} << 46)
        return make_error(Code::invalid, "a pinned pool of " + std::to_string(options.bytes) +
                                             " bytes: ask for 1 to 2^46");
    if (!std::has_single_bit(options.slice_bytes) || options.slice_bytes < kHugePageBytes)
        return make_error(Code::invalid, "slices of " + std::to_string(options.slice_bytes) +
                                             " bytes: ask for a power of two from 2 MiB on");
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || options.device < 0 ||
        options.device >= devices)
        return make_error(Code::unsupported,
                          "no CUDA device " + std::to_string(options.device) + " here");
    std::unique_ptr<PinnedPool> pool(new PinnedPool);
    pool->bytes_ = round_up(options.bytes, kHugePageBytes);
    pool->slice_bytes_ = options.slice_bytes;
    pool->numa_node_ = node_of(options.device);
    if (!options.huge_pages || !pool->map(true).ok()) QUIRE_TRY(pool->map(false));
    QUIRE_TRY(pool->register_slices());
    return pool;
}

// Address space for a slice more than is needed, so that slices can lie at multiples of their size;
// what is not needed goes back before any page of it exists.
Status PinnedPool::map(bool huge_pages) {
    const uint64_t alignment = std::min(slice_bytes_, std::bit_ceil(bytes_));
    const uint64_t space_bytes = bytes_ + alignment;
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
    void* space = mmap(nullptr, space_bytes, PROT_NONE, kFlags | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) return unmapped(space_bytes);
    auto* begin = static_cast<std::byte*>(space);
    const auto address = reinterpret_cast<uintptr_t>(begin);
    const uint64_t skipped_bytes = round_up(address, alignment) - address;
    std::byte* wanted = begin + skipped_bytes;
    if (skipped_bytes > 0) munmap(begin, skipped_bytes);
    if (skipped_bytes < alignment) munmap(wanted + bytes_, alignment - skipped_bytes);
    const int huge = huge_pages ? MAP_HUGETLB : 0;
    if (mmap(wanted, bytes_, PROT_READ | PROT_WRITE, kFlags | MAP_FIXED | huge, -1, 0) ==
        MAP_FAILED) {
        const Error error = unmapped(bytes_);
        munmap(wanted, bytes_);
        return error;
    }
    data_ = wanted;
    huge_ = huge_pages;
    if (!huge_pages) madvise(data_, bytes_, MADV_HUGEPAGE);
    prefer_node(data_, bytes_, numa_node_);
    return {};
}

Status PinnedPool::register_slices() {
    while (registered_bytes_ < bytes_) {
        const uint64_t bytes = std::min(slice_bytes_, bytes_ - registered_bytes_);
        std::byte* slice = data_ + registered_bytes_;
        // Faulted in here, an error is an error; at a first touch it would be a signal.
        if (madvise(slice, bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
            return make_error(Code::full,
                              "no memory for a slice of " + std::to_string(bytes) +
                                  " pinned bytes: make the pool smaller",
                              errno);
        const cudaError_t error =
            cudaHostRegister(slice, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
        void* alias = nullptr;
        if (error != cudaSuccess) {
            cudaGetLastError();  // told here; it is nobody else's
            return make_error(Code::full,
                              std::string("cannot register pinned memory (") +
                                  cudaGetErrorString(error) +
                                  "): make the pool smaller, or raise the limit of locked memory",
                              error);
        }
        registered_bytes_ += bytes;
        if (cudaHostGetDevicePointer(&alias, slice, 0) != cudaSuccess || alias != slice)
            return make_error(Code::unsupported,
                              "this device sees pinned memory at other addresses than the host");
    }
    return {};
}

PinnedPool::~PinnedPool() {
    for (uint64_t at = 0; at < registered_bytes_; at += slice_bytes_)
        cudaHostUnregister(data_ + at);
    if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace quire::kernels::cuda
