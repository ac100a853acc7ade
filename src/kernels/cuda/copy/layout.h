// Copies that change how K and V lie on their way: token-major, head-major, by pages or across
// layers, all heads or some rank's. A block is one run of rows at strides, however many tokens,
// heads and layers it has; the device expands it. Pure host code.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace quire::kernels::cuda {

// Row (i0, i1, i2, i3), i3 fastest, is `row_bytes` at the sum of index times stride on either side.
struct StridedRun {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::array<uint32_t, 4> counts = {1, 1, 1, 1};
    uint32_t row_bytes = 0;   // everything here is a multiple of 16 bytes
    uint32_t first_unit = 0;  // number_runs() sets it
    std::array<int64_t, 4> from_strides{};
    std::array<int64_t, 4> to_strides{};

    constexpr uint64_t bytes() const {
        return uint64_t{row_bytes} * counts[0] * counts[1] * counts[2] * counts[3];
    }
};

// What a block has.
struct KvExtent {
    uint32_t layers = 1;
    uint32_t sides = 2;  // K and V; 1 for latent rows
    uint32_t tokens = 1;
    uint32_t heads = 1;
    uint32_t row_bytes = 0;  // of one head of one token
};

// Where it lies: bytes from one to the next.
struct KvLayout {
    int64_t layer = 0;
    int64_t side = 0;
    int64_t token = 0;
    int64_t head = 0;
};

// Contiguous ones, by what varies slowest first.
KvLayout layer_token_head(const KvExtent& extent);  // [layer][side][token][head], NHD
KvLayout layer_head_token(const KvExtent& extent);  // [layer][side][head][token], HND
KvLayout head_layer_token(
    const KvExtent& extent);  // [head][layer][side][token]: ranks' parts whole

// Where head `head` of a block begins: a rank's part of a block is a block of fewer heads from
// there, with the whole one's layout.
inline int64_t head_offset(const KvLayout& layout, uint32_t head) {
    return layout.head * head;
}

// As one run, in the order of the destination, with as few and as long rows as the two layouts
// allow.
StridedRun layout_run(const std::byte* from, const KvLayout& from_layout, std::byte* to,
                      const KvLayout& to_layout, const KvExtent& extent);

// invalid: an address, stride or row that is no multiple of 16 bytes; a count or a row of 0.
Status check_run(const StridedRun& run);

// A unit is what a warp copies at a time; the last one of a run may have less.
inline constexpr uint32_t kUnitBytes = 4096;

// Numbers the units of the runs through; returns how many there are. REQUIRES: fewer than 2^31.
int64_t number_runs(std::span<StridedRun> runs);

}  // namespace quire::kernels::cuda
