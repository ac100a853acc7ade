#include "kernels/cuda/copy/layout.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace quire::kernels::cuda {
namespace {

constexpr uint64_t kRowBytesMax = uint64_t{1} << 30;

struct Axis {
    uint32_t count;
    int64_t from;
    int64_t to;
};

// Axes in the order of the destination; those of one step go, and those that the next one goes on
// from join it.
StridedRun run_of(std::array<Axis, 4> axes, uint32_t row_bytes) {
    std::ranges::stable_sort(
        axes, [](const Axis& a, const Axis& b) { return llabs(a.to) > llabs(b.to); });
    StridedRun run;
    run.row_bytes = row_bytes;
    std::array<Axis, 4> kept;
    size_t n = 0;
    for (const Axis& axis : axes) {
        if (axis.count == 1) continue;
        if (n > 0 && kept[n - 1].from == axis.from * axis.count &&
            kept[n - 1].to == axis.to * axis.count)
            kept[n - 1] = {kept[n - 1].count * axis.count, axis.from, axis.to};
        else
            kept[n++] = axis;
    }
    if (n > 0 && kept[n - 1].from == row_bytes && kept[n - 1].to == row_bytes &&
        uint64_t{row_bytes} * kept[n - 1].count <= kRowBytesMax)
        run.row_bytes *= kept[--n].count;
    for (size_t i = 0; i < n; ++i) {
        const size_t place = 4 - n + i;
        run.counts[place] = kept[i].count;
        run.from_strides[place] = kept[i].from;
        run.to_strides[place] = kept[i].to;
    }
    return run;
}

}  // namespace

KvLayout layer_token_head(const KvExtent& e) {
    KvLayout layout{.head = e.row_bytes};
    layout.token = layout.head * e.heads;
    layout.side = layout.token * e.tokens;
    layout.layer = layout.side * e.sides;
    return layout;
}

KvLayout layer_head_token(const KvExtent& e) {
    KvLayout layout{.token = e.row_bytes};
    layout.head = layout.token * e.tokens;
    layout.side = layout.head * e.heads;
    layout.layer = layout.side * e.sides;
    return layout;
}

KvLayout head_layer_token(const KvExtent& e) {
    KvLayout layout{.token = e.row_bytes};
    layout.side = layout.token * e.tokens;
    layout.layer = layout.side * e.sides;
    layout.head = layout.layer * e.layers;
    return layout;
}

StridedRun layout_run(const std::byte* from, const KvLayout& from_layout, std::byte* to,
                      const KvLayout& to_layout, const KvExtent& extent) {
    StridedRun run = run_of({{{extent.layers, from_layout.layer, to_layout.layer},
                              {extent.sides, from_layout.side, to_layout.side},
                              {extent.tokens, from_layout.token, to_layout.token},
                              {extent.heads, from_layout.head, to_layout.head}}},
                            extent.row_bytes);
    run.from = from;
    run.to = to;
    return run;
}

Status check_run(const StridedRun& run) {
    const auto odd = [](auto x) { return x % 16 != 0; };
    if (run.from == nullptr || run.to == nullptr)
        return make_error(Code::invalid, "a run has a null address");
    if (run.row_bytes == 0 || std::ranges::count(run.counts, 0u) > 0)
        return make_error(Code::invalid, "a run has no rows");
    if (odd(reinterpret_cast<uintptr_t>(run.from)) || odd(reinterpret_cast<uintptr_t>(run.to)) ||
        odd(run.row_bytes) || std::ranges::any_of(run.from_strides, odd) ||
        std::ranges::any_of(run.to_strides, odd))
        return make_error(Code::invalid, "a run is not made of whole 16 bytes at multiples of 16");
    if (run.bytes() / 16 > ~uint32_t{0})
        return make_error(Code::invalid, "a run of more than 64 GiB");
    return {};
}

int64_t number_runs(std::span<StridedRun> runs) {
    int64_t units = 0;
    for (StridedRun& run : runs) {
        run.first_unit = static_cast<uint32_t>(units);
        units += static_cast<int64_t>((run.bytes() + kUnitBytes - 1) / kUnitBytes);
    }
    return units;
}

}  // namespace quire::kernels::cuda
