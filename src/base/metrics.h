// Metrics: the values behind metric_names.h, and their Prometheus text.
//
// Every series with a closed label exists from the start. Adding is one relaxed atomic operation on
// an address that never changes: keep the reference in hot paths. Any thread; text() may run beside
// adds and then sees each of them or not.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/metric_names.h"

namespace quire {

class Counter {
 public:
    void add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
    // For totals that are counted elsewhere: raises the value to `total`, never lowers it.
    void mirror(uint64_t total);
    uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
    std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
    void set(int64_t value) { value_.store(value, std::memory_order_relaxed); }
    void add(int64_t n) { value_.fetch_add(n, std::memory_order_relaxed); }
    int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
    std::atomic<int64_t> value_{0};
};

class Histogram {
 public:
    // REQUIRES: edges ascending and outliving the histogram.
    explicit Histogram(std::span<const double> edges);
    // Values that are not finite are ignored.
    void observe(double value);
    uint64_t count() const;
    double sum() const { return sum_.load(std::memory_order_relaxed); }
    // Observations at or below edge i; one past the edges: all.
    uint64_t cumulative(size_t i) const;
    std::span<const double> edges() const { return edges_; }

 private:
    std::span<const double> edges_;
    std::vector<std::atomic<uint64_t>> counts_;  // one per edge and one above
    std::atomic<double> sum_{0};
};

class Metrics {
 public:
    // Tenants beyond these are counted together as "other".
    static constexpr size_t kMaxTenants = 64;

    Metrics();
    ~Metrics();

    // The series of a metric; `labels` are indexes into its labels' lists, as integers or their
    // enums. REQUIRES: the metric is of that kind and has that many labels.
    template <typename... Labels>
    Counter& counter(Metric id, Labels... labels) {
        return counter_at(id, {static_cast<size_t>(labels)...});
    }
    template <typename... Labels>
    Gauge& gauge(Metric id, Labels... labels) {
        return gauge_at(id, {static_cast<size_t>(labels)...});
    }
    template <typename... Labels>
    Histogram& histogram(Metric id, Labels... labels) {
        return histogram_at(id, {static_cast<size_t>(labels)...});
    }
    // The label index of a tenant, which is remembered; 0 is "other".
    size_t tenant(std::string_view name);
    // The value of an info metric's label.
    void set_info(Metric id, std::string_view value);

    // Runs before each text(), to copy gauges and totals that live elsewhere. What it refers to
    // must outlive this object or the returned token's life.
    using Collector = std::function<void(Metrics&)>;
    std::shared_ptr<void> on_collect(Collector collector);

    // Prometheus text exposition, version 0.0.4.
    std::string text();

    Metrics(const Metrics&) = delete;
    Metrics& operator=(const Metrics&) = delete;

 private:
    struct Family;
    Counter& counter_at(Metric id, std::initializer_list<size_t> labels);
    Gauge& gauge_at(Metric id, std::initializer_list<size_t> labels);
    Histogram& histogram_at(Metric id, std::initializer_list<size_t> labels);
    Family& family(Metric id, MetricKind kind);

    std::vector<std::unique_ptr<Family>> families_;
    std::mutex mutex_;  // guards what follows
    std::vector<std::string> tenants_;
    std::vector<std::weak_ptr<Collector>> collectors_;
};

}  // namespace quire
