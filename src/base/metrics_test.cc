#include "base/metrics.h"

#include <cmath>
#include <iostream>
#include <limits>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/prometheus_check.h"
#include "base/scratch_file.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PrometheusSamples samples(Metrics& metrics) {
    const auto checked = check_prometheus_text(metrics.text());
    EXPECT_TRUE(checked.ok()) << (checked.ok() ? "" : checked.error().message);
    return checked.ok() ? *checked : PrometheusSamples{};
}

TEST(Metrics, EverySeriesIsThereAtZeroFromTheStart) {
    Metrics metrics;
    const auto all = samples(metrics);
    for (const char* name :
         {"quire_lookup_tokens_total", "quire_hit_tokens_total{tier=\"g1\"}",
          "quire_hit_tokens_total{tier=\"g4\"}", "quire_misses_total{reason=\"never_seen\"}",
          "quire_evicted_blocks_total{tier=\"g3\",reason=\"capacity\"}",
          "quire_load_seconds_count{tier=\"g3.5\"}", "quire_time_to_first_token_seconds_sum",
          "quire_time_to_first_token_seconds_bucket{le=\"0.001\"}",
          "quire_http_responses_total{route=\"/v1/completions\",code=\"429\"}",
          "quire_tenant_requests_total{tenant=\"other\"}"}) {
        ASSERT_TRUE(all.contains(name)) << name;
        EXPECT_EQ(all.at(name), 0) << name;
    }
}

TEST(Metrics, NamesFollowTheLaw) {
    std::set<std::string_view> names;
    for (const MetricRow& row : metric_table()) {
        SCOPED_TRACE(std::string(row.name));
        EXPECT_TRUE(names.insert(row.name).second);
        EXPECT_TRUE(row.name.starts_with("quire_"));
        EXPECT_EQ(row.kind == MetricKind::counter, row.name.ends_with("_total"));
        EXPECT_EQ(row.kind == MetricKind::info, row.name.ends_with("_info"));
        EXPECT_EQ(row.kind == MetricKind::histogram, !row.buckets.empty());
        EXPECT_TRUE(row.help.ends_with('.'));
        std::string_view stem = row.name;
        if (stem.ends_with("_total")) stem.remove_suffix(6);
        for (const std::string_view unit : {"_ms", "_ns", "_us", "_mb", "_gb", "_percent"})
            EXPECT_FALSE(stem.ends_with(unit));
        for (size_t i = 1; i < row.buckets.size(); ++i)
            EXPECT_LT(row.buckets[i - 1], row.buckets[i]);
    }
}

TEST(Metrics, LabelEnumsMatchTheirNames) {
    EXPECT_EQ(label::kMisses[static_cast<size_t>(label::Miss::cache_off)], "cache_off");
    EXPECT_EQ(label::kOutcomes[static_cast<size_t>(label::Outcome::error)], "error");
    EXPECT_EQ(label::kEvicts[static_cast<size_t>(label::Evict::cleaned)], "cleaned");
    EXPECT_EQ(label::kSkips[static_cast<size_t>(label::Skip::io_error)], "io_error");
    EXPECT_EQ(label::kPreempts[static_cast<size_t>(label::Preempt::recompute)], "recompute");
    EXPECT_EQ(label::kHttpCodes[label::http_code(429)], "429");
    EXPECT_EQ(label::kHttpCodes[label::http_code(418)], "400");
    EXPECT_EQ(label::kHttpCodes[label::http_code(599)], "500");
}

TEST(Metrics, CountersAndGaugesShowWhatWasAdded) {
    Metrics metrics;
    metrics.counter(Metric::lookup_tokens_total).add(7);
    metrics.counter(Metric::hit_tokens_total, 1).add(3);
    metrics.counter(Metric::evicted_blocks_total, 2, label::Evict::quota).add(4096);
    metrics.gauge(Metric::requests_running).add(2);
    metrics.gauge(Metric::requests_running).add(-5);
    metrics.gauge(Metric::tier_used_bytes, 2).set(int64_t{1} << 40);
    const auto all = samples(metrics);
    EXPECT_EQ(all.at("quire_lookup_tokens_total"), 7);
    EXPECT_EQ(all.at("quire_hit_tokens_total{tier=\"g2\"}"), 3);
    EXPECT_EQ(all.at("quire_evicted_blocks_total{tier=\"g3\",reason=\"quota\"}"), 4096);
    EXPECT_EQ(all.at("quire_evicted_blocks_total{tier=\"g3\",reason=\"capacity\"}"), 0);
    EXPECT_EQ(all.at("quire_requests_running"), -3);
    EXPECT_EQ(all.at("quire_tier_used_bytes{tier=\"g3\"}"), 1099511627776);
}

TEST(Metrics, MirroredTotalsNeverGoDown) {
    Counter counter;
    counter.mirror(10);
    counter.mirror(4);
    EXPECT_EQ(counter.value(), 10u);
    counter.mirror(11);
    EXPECT_EQ(counter.value(), 11u);
}

TEST(Metrics, HistogramBucketsAreCumulativeAndInclusive) {
    constexpr double kEdges[] = {1, 2, 4};
    Histogram h(kEdges);
    for (const double v : {0.5, 1.0, 1.5, 2.0, 3.0, 100.0, -1.0}) h.observe(v);
    h.observe(std::nan(""));
    h.observe(std::numeric_limits<double>::infinity());
    EXPECT_EQ(h.cumulative(0), 3u);
    EXPECT_EQ(h.cumulative(1), 5u);
    EXPECT_EQ(h.cumulative(2), 6u);
    EXPECT_EQ(h.count(), 7u);
    EXPECT_DOUBLE_EQ(h.sum(), 107.0);
}

TEST(Metrics, TenantsAreBoundedAndEscaped) {
    Metrics metrics;
    EXPECT_EQ(metrics.tenant("other"), 0u);
    const size_t odd = metrics.tenant("a\"b\\c\nd");
    EXPECT_EQ(metrics.tenant("a\"b\\c\nd"), odd);
    metrics.counter(Metric::tenant_requests_total, odd).add(1);
    for (int i = 0; i < 1000; ++i) {
        const size_t index = metrics.tenant("tenant-" + std::to_string(i));
        ASSERT_LE(index, Metrics::kMaxTenants);
        metrics.counter(Metric::tenant_requests_total, index).add(1);
    }
    const auto all = samples(metrics);
    EXPECT_EQ(all.at(R"(quire_tenant_requests_total{tenant="a\"b\\c\nd"})"), 1);
    EXPECT_EQ(all.at("quire_tenant_requests_total{tenant=\"other\"}"), 1000 - 63);
}

TEST(Metrics, InfoAndCollectors) {
    Metrics metrics;
    metrics.set_info(Metric::build_info, "0.1.0");
    auto token = metrics.on_collect(
        [](Metrics& m) { m.gauge(Metric::leases).set(m.gauge(Metric::leases).value() + 1); });
    EXPECT_EQ(samples(metrics).at("quire_leases"), 1);
    EXPECT_EQ(samples(metrics).at("quire_leases"), 2);
    token.reset();
    EXPECT_EQ(samples(metrics).at("quire_leases"), 2);
    EXPECT_TRUE(samples(metrics).contains("quire_build_info{version=\"0.1.0\"}"));
}

TEST(Metrics, ThreadsLoseNothing) {
    Metrics metrics;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&metrics] {
            for (int i = 0; i < 5000; ++i) {
                metrics.counter(Metric::steps_total).add();
                metrics.histogram(Metric::step_seconds).observe(0.5);
            }
        });
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(check_prometheus_text(metrics.text()).ok());
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(metrics.counter(Metric::steps_total).value(), 20000u);
    EXPECT_EQ(metrics.histogram(Metric::step_seconds).count(), 20000u);
    EXPECT_DOUBLE_EQ(metrics.histogram(Metric::step_seconds).sum(), 10000.0);
}

// The format's own checker, where the machine has it.
TEST(Metrics, PromtoolAccepts) {
    Metrics metrics;
    const ScratchFile file;
    const std::string text = metrics.text();
    ASSERT_EQ(::pwrite(file.fd(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, file.fd(), STDIN_FILENO);
    char promtool[] = "promtool", check[] = "check", what[] = "metrics";
    char* const arguments[] = {promtool, check, what, nullptr};
    pid_t pid = 0;
    const int error = posix_spawnp(&pid, promtool, &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    const bool ran = error == 0 && ::waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) != 127;
    if (!ran) {
        std::cout << "promtool is not installed; only our own checker read the metrics\n";
        return;
    }
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(MetricsDeathTest, WrongKindOrLabelsAreOurBug) {
    Metrics metrics;
    EXPECT_DEATH(metrics.gauge(Metric::lookups_total), "another kind");
    EXPECT_DEATH(metrics.counter(Metric::hit_tokens_total), "number of labels");
    EXPECT_DEATH(metrics.counter(Metric::hit_tokens_total, 5), "out of range");
}

TEST(PrometheusCheck, RefusesWhatIsNoExposition) {
    const std::string head = "# HELP a_total A.\n# TYPE a_total counter\n";
    EXPECT_TRUE(check_prometheus_text(head + "a_total 1\n").ok());
    for (const std::string& bad :
         {std::string("a_total 1\n"), head + "a_total 1", head + "b_total 1\n",
          head + "a_total x\n", head + "a_total{x=1} 1\n", head + "a_total{x=\"\n\"} 1\n",
          head + "a_total 1\na_total 2\n", head + head,
          std::string("# HELP a A.\n# TYPE a counter\n"), std::string("# HELP a A.\n"),
          std::string("# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\n"
                      "h_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n"),
          std::string(
              "# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 2\n"),
          std::string("# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\n")})
        EXPECT_FALSE(check_prometheus_text(bad).ok()) << bad;
}

}  // namespace
}  // namespace quire
