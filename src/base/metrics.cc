#include "base/metrics.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/metrics_family.h"

namespace quire {

void Counter::mirror(uint64_t total) {
    uint64_t seen = value();
    while (seen < total && !value_.compare_exchange_weak(seen, total, std::memory_order_relaxed)) {
    }
}

Histogram::Histogram(std::span<const double> edges) : edges_(edges), counts_(edges.size() + 1) {}

void Histogram::observe(double value) {
    if (!std::isfinite(value)) return;
    const auto edge = std::lower_bound(edges_.begin(), edges_.end(), value);
    counts_[static_cast<size_t>(edge - edges_.begin())].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
}

uint64_t Histogram::count() const {
    return cumulative(edges_.size());
}

uint64_t Histogram::cumulative(size_t i) const {
    uint64_t total = 0;
    for (size_t k = 0; k <= i; ++k) total += counts_[k].load(std::memory_order_relaxed);
    return total;
}

Metrics::Family::Family(const MetricRow& row_in) : row(row_in) {
    series = 1;
    for (size_t i = 0; i < row.labels.size(); ++i) {
        const MetricLabel& label = row.labels[i];
        if (label.name.empty()) continue;
        ++label_count;
        sizes[i] = label.values.size();
        if (label.values.empty()) sizes[i] = row.kind == MetricKind::info ? 1 : 1 + kMaxTenants;
        series *= sizes[i];
    }
    if (row.kind == MetricKind::counter) counters = std::make_unique<Counter[]>(series);
    if (row.kind == MetricKind::gauge) gauges = std::make_unique<Gauge[]>(series);
    for (size_t i = 0; row.kind == MetricKind::histogram && i < series; ++i)
        histograms.push_back(std::make_unique<Histogram>(row.buckets));
}

size_t Metrics::Family::index(std::initializer_list<size_t> labels) const {
    QUIRE_CHECK(labels.size() == label_count, "metric used with the wrong number of labels");
    size_t index = 0;
    size_t i = 0;
    for (const size_t label : labels) {
        QUIRE_CHECK(label < sizes[i], "metric label out of range");
        index = index * sizes[i++] + label;
    }
    return index;
}

Metrics::Metrics() {
    for (const MetricRow& row : metric_table()) families_.push_back(std::make_unique<Family>(row));
    tenants_.emplace_back("other");
}

Metrics::~Metrics() = default;

Metrics::Family& Metrics::family(Metric id, MetricKind kind) {
    QUIRE_CHECK(id < Metric::count, "no such metric");
    Family& found = *families_[static_cast<size_t>(id)];
    QUIRE_CHECK(found.row.kind == kind, "metric used as another kind");
    return found;
}

Counter& Metrics::counter_at(Metric id, std::initializer_list<size_t> labels) {
    Family& f = family(id, MetricKind::counter);
    return f.counters[f.index(labels)];
}

Gauge& Metrics::gauge_at(Metric id, std::initializer_list<size_t> labels) {
    Family& f = family(id, MetricKind::gauge);
    return f.gauges[f.index(labels)];
}

Histogram& Metrics::histogram_at(Metric id, std::initializer_list<size_t> labels) {
    Family& f = family(id, MetricKind::histogram);
    return *f.histograms[f.index(labels)];
}

size_t Metrics::tenant(std::string_view name) {
    std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(tenants_, name);
    if (known != tenants_.end()) return static_cast<size_t>(known - tenants_.begin());
    if (tenants_.size() > kMaxTenants) return 0;
    tenants_.emplace_back(name);
    return tenants_.size() - 1;
}

void Metrics::set_info(Metric id, std::string_view value) {
    Family& f = family(id, MetricKind::info);
    std::lock_guard lock(mutex_);
    f.info = value;
}

std::shared_ptr<void> Metrics::on_collect(Collector collector) {
    auto token = std::make_shared<Collector>(std::move(collector));
    std::lock_guard lock(mutex_);
    collectors_.push_back(token);
    return token;
}

}  // namespace quire
