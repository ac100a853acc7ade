// One metric with all its series. Internal to Metrics.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"

namespace quire {

struct Metrics::Family {
    explicit Family(const MetricRow& row_in);
    size_t index(std::initializer_list<size_t> labels) const;

    const MetricRow& row;
    size_t label_count = 0;
    std::array<size_t, 2> sizes = {1, 1};  // values of each label
    size_t series = 1;
    std::unique_ptr<Counter[]> counters;
    std::unique_ptr<Gauge[]> gauges;
    std::vector<std::unique_ptr<Histogram>> histograms;
    std::string info;
};

}  // namespace quire
