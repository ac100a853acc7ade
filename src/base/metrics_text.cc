// Metrics::text: the Prometheus text exposition format.
#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/metrics_family.h"

namespace quire {
namespace {

std::string escaped(std::string_view value) {
    std::string out;
    for (const char c : value) {
        if (c == '\\' || c == '"') out += '\\';
        if (c == '\n')
            out += "\\n";
        else
            out += c;
    }
    return out;
}

std::string_view kind_name(MetricKind kind) {
    if (kind == MetricKind::counter) return "counter";
    return kind == MetricKind::histogram ? "histogram" : "gauge";
}

// `inner` may be empty.
std::string braces(const std::string& inner) {
    return inner.empty() ? "" : "{" + inner + "}";
}

void append_histogram(std::string& out, std::string_view name, const std::string& labels,
                      const Histogram& histogram) {
    const std::string prefix = labels.empty() ? "" : labels + ",";
    const auto edges = histogram.edges();
    // From one reading of the counts, so that the lines agree while others observe.
    std::vector<uint64_t> cumulative(edges.size() + 1);
    for (size_t i = 0; i <= edges.size(); ++i) {
        cumulative[i] = histogram.cumulative(i);
        if (i > 0) cumulative[i] = std::max(cumulative[i], cumulative[i - 1]);
    }
    const auto at = std::back_inserter(out);
    for (size_t i = 0; i < edges.size(); ++i)
        fmt::format_to(at, "{}_bucket{{{}le=\"{}\"}} {}\n", name, prefix, edges[i], cumulative[i]);
    fmt::format_to(at, "{}_bucket{{{}le=\"+Inf\"}} {}\n", name, prefix, cumulative.back());
    fmt::format_to(at, "{}_sum{} {}\n", name, braces(labels), histogram.sum());
    fmt::format_to(at, "{}_count{} {}\n", name, braces(labels), cumulative.back());
}

// The labels of series `index` as name="value" pairs.
std::string labels_of(const MetricRow& row, const std::array<size_t, 2>& sizes, size_t index,
                      const std::vector<std::string>& tenants) {
    const std::array<size_t, 2> values = {index / sizes[1], index % sizes[1]};
    std::string out;
    for (size_t i = 0; i < row.labels.size(); ++i) {
        const MetricLabel& label = row.labels[i];
        if (label.name.empty()) continue;
        const std::string value = label.values.empty() ? escaped(tenants[values[i]])
                                                       : std::string(label.values[values[i]]);
        out += fmt::format("{}{}=\"{}\"", out.empty() ? "" : ",", label.name, value);
    }
    return out;
}

}  // namespace

std::string Metrics::text() {
    std::vector<std::shared_ptr<Collector>> collectors;
    {
        std::lock_guard lock(mutex_);
        std::erase_if(collectors_, [](const auto& weak) { return weak.expired(); });
        for (const auto& weak : collectors_)
            if (auto collector = weak.lock()) collectors.push_back(std::move(collector));
    }
    for (const auto& collector : collectors) (*collector)(*this);

    std::lock_guard lock(mutex_);
    std::string out;
    for (const auto& f : families_) {
        const MetricRow& row = f->row;
        fmt::format_to(std::back_inserter(out), "# HELP {} {}\n# TYPE {} {}\n", row.name, row.help,
                       row.name, kind_name(row.kind));
        if (row.kind == MetricKind::info) {
            out +=
                fmt::format("{}{{{}=\"{}\"}} 1\n", row.name, row.labels[0].name, escaped(f->info));
            continue;
        }
        const bool by_tenant = !row.labels[0].name.empty() && row.labels[0].values.empty();
        const size_t series = by_tenant ? tenants_.size() : f->series;
        for (size_t i = 0; i < series; ++i) {
            const std::string labels = labels_of(row, f->sizes, i, tenants_);
            if (row.kind == MetricKind::histogram)
                append_histogram(out, row.name, labels, *f->histograms[i]);
            else if (row.kind == MetricKind::counter)
                out += fmt::format("{}{} {}\n", row.name, braces(labels), f->counters[i].value());
            else
                out += fmt::format("{}{} {}\n", row.name, braces(labels), f->gauges[i].value());
        }
    }
    return out;
}

}  // namespace quire
