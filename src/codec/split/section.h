// What a model's sidecar holds for tq2.5: which dimensions vary most, for each side of each KV
// head.
#pragma once

#include <vector>

#include "base/result.h"
#include "codec/sidecar.h"

namespace quire::codec::split {

// [head_dim] each, as RowMap has them.
struct HeadOrders {
    std::vector<uint16_t> k, v;

    friend bool operator==(const HeadOrders&, const HeadOrders&) = default;
};

struct Orders {
    std::vector<std::vector<HeadOrders>> heads;  // [layer][head]

    void store(Sidecar* sidecar) const;
    // miss: the sidecar has none; corrupt: not as many numbers as its layers ask for, or a
    // dimension that is not there just once.
    static Result<Orders> of(const Sidecar& sidecar);
};
inline constexpr uint32_t kTag = sidecar_tag("TQ25");

}  // namespace quire::codec::split
