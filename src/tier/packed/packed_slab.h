// One slab, packed and back. Any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "format/slab.h"
#include "tier/packed/slab_packing.h"

namespace quire {

// Bytes in memory aligned to 4 KiB, as slabs need it. Move-only.
class SlabBuffer {
 public:
    SlabBuffer() = default;
    // Empty when there is no memory for it.
    explicit SlabBuffer(size_t bytes);
    std::span<std::byte> bytes() const { return {data_.get(), bytes_}; }
    explicit operator bool() const { return data_ != nullptr; }

 private:
    struct Free {
        void operator()(std::byte* data) const;
    };
    std::unique_ptr<std::byte, Free> data_;
    size_t bytes_ = 0;
};

// The slab packed and sealed. Empty where that would not be smaller, and where what a lossless
// packing wrote does not come back. `scratch` holds nothing that matters between calls.
SlabBuffer pack_slab(const SlabPacking& packing, std::span<const std::byte> slab,
                     std::vector<std::byte>* scratch);

// How many bytes unpack_slab() needs for a verified slab. Only its header is read.
size_t unpacked_bytes(std::span<const std::byte> slab);

// A copy with its payload as it is, sealed, that only such a packing gives back: for slabs that
// stay as they are and stand on what a lossy one changed. Empty when there is no memory for it.
SlabBuffer mark_slab(const SlabPacking& packing, std::span<const std::byte> slab);

// Whether the slab is as this packing stores such slabs: packed, or marked.
bool packed_by(const SlabPacking& packing, std::span<const std::byte> slab);

// `into` begins with a verified slab as a store gave it, and has the size of the slab that was
// asked for. Afterwards it is that slab, sealed: unpacked if it was packed, without its mark if it
// had one, else untouched.
// corrupt; unsupported: packed in another way; invalid: of another size.
Status unpack_slab(const SlabPacking& packing, std::span<std::byte> into,
                   std::vector<std::byte>* scratch);

}  // namespace quire
