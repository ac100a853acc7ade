// What a copy engine is asked for, and how it is cut: fragments that follow each other on both
// sides become one, large ones are cut so that workers have equal shares. Pure host code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace quire::kernels::cuda {

// Addresses as the copying device sees them: its own memory, a peer's, or pinned memory of the
// host.
struct CopyFragment {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    uint64_t bytes = 0;

    friend bool operator==(const CopyFragment&, const CopyFragment&) = default;
};

// Part of a fragment, as a kernel reads it.
struct CopyPiece {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    uint64_t at = 0;  // bytes of the fragment before it
    uint32_t bytes = 0;
    uint32_t fragment = 0;  // which one of its list

    friend bool operator==(const CopyPiece&, const CopyPiece&) = default;
};
static_assert(sizeof(CopyPiece) == 32);

// Fragments of 16 bytes are the smallest that are worth a thread each.
inline constexpr uint64_t kCopyAlign = 16;

// In the order given; a fragment that goes on where the one before it ends, on both sides, is
// joined to it; empty ones are left out.
std::vector<CopyFragment> join_fragments(std::span<const CopyFragment> fragments);

// Pieces of at most `piece_bytes`, which is a multiple of kCopyAlign.
std::vector<CopyPiece> cut_fragments(std::span<const CopyFragment> fragments, uint32_t piece_bytes);

// invalid, naming the fragment: an address is null or not a multiple of kCopyAlign, the bytes are
// not; two fragments write the same byte; one reads what another one writes.
Status check_fragments(std::span<const CopyFragment> fragments);

}  // namespace quire::kernels::cuda
