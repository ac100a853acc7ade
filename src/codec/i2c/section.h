// What a model's sidecar holds for i2c: a matrix and its inverse for each side of each KV head.
#pragma once

#include <vector>

#include "base/result.h"
#include "codec/sidecar.h"

namespace quire::codec::i2c {

// [head_dim][head_dim] each, as RowMap has them.
struct HeadMatrices {
    std::vector<float> k_forward, k_back, v_forward, v_back;

    // Borrows.
    RowMap k_map() const { return {.forward = k_forward.data(), .back = k_back.data()}; }
    RowMap v_map() const { return {.forward = v_forward.data(), .back = v_back.data()}; }

    friend bool operator==(const HeadMatrices&, const HeadMatrices&) = default;
};

struct Matrices {
    std::vector<std::vector<HeadMatrices>> heads;  // [layer][head]

    void store(Sidecar* sidecar) const;
    // miss: the sidecar has none; corrupt: not as many numbers as its layers ask for, or one that
    // is not finite.
    static Result<Matrices> of(const Sidecar& sidecar);
};
inline constexpr uint32_t kTag = sidecar_tag("I2Cm");

}  // namespace quire::codec::i2c
