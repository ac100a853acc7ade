// The tables of the codec ec, from many components of many heads.
#pragma once

#include <vector>

#include "codec/ec/ec.h"
#include "codec/sidecar.h"

namespace quire::bench {

// Components over their deviations, a sample of them from each head.
class ClassPool {
 public:
    explicit ClassPool(const codec::Sidecar& sidecar);
    // `projections` [tokens][head_dim] along the head's components.
    void add(const std::vector<float>& projections, const codec::ec::HeadModel& head);
    std::vector<codec::ec::ClassModel> classes() const;

 private:
    size_t numbers_of_head_;
    std::vector<float> pool_;
};

}  // namespace quire::bench
