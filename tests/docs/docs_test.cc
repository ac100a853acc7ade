// The reference pages in docs/ are generated from the tables in the code; a page that lags behind
// fails here. To write them anew: QUIRE_UPDATE_DOCS=1 build/release/tests/docs/quire_docs_test
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "base/config.h"
#include "base/metric_names.h"
#include "base/options.h"

namespace quire {
namespace {

std::string read_file(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

void expect_page(const std::string& path, const std::string& wanted) {
    if (std::getenv("QUIRE_UPDATE_DOCS") != nullptr) std::ofstream(path) << wanted;
    EXPECT_EQ(read_file(path), wanted) << path << " lags behind the code: run this test with "
                                       << "QUIRE_UPDATE_DOCS=1 to write it anew";
}

std::string configuration_page() {
    return "# Options of `quire serve`\n\n"
           "A flag beats an environment variable, which beats the file given by `--config`, which "
           "beats the\ndefault. An unknown name is an error that suggests the nearest one. Sizes "
           "are written `512MiB` or\n`64GiB`, times `30s` or `10m`; what is on or off is "
           "`--cache`, "
           "`--no-cache` or `--cache=off` as a\nflag, and `on` or `off` elsewhere. A list is "
           "written with\ncommas; in the file it may be a YAML list. Generated from the option "
           "table; do not edit.\n\n" +
           config_reference(serve_option_table()) +
           "\n`--port-file FILE`, a flag only, writes the port that was taken, and a newline, to "
           "a file once the\nserver listens.\n";
}

std::string labels_of(const MetricRow& row) {
    std::string text;
    for (const MetricLabel& label : row.labels) {
        if (label.name.empty()) continue;
        if (!text.empty()) text += "; ";
        text += "`" + std::string(label.name) + "`";
        if (label.values.empty()) continue;
        text += ": ";
        for (size_t i = 0; i < label.values.size(); ++i) {
            text += (i == 0 ? "" : ", ") + std::string(label.values[i]);
        }
    }
    return text;
}

std::string metrics_page() {
    constexpr const char* kKinds[] = {"counter", "gauge", "histogram", "info"};
    std::string page =
        "# Metrics\n\n"
        "`GET /metrics` in Prometheus' text format. Every series with a closed list of labels is "
        "there at zero\nfrom the start. Generated from the metric table; do not edit.\n\n"
        "| name | kind | labels | meaning |\n|---|---|---|---|\n";
    for (const MetricRow& row : metric_table()) {
        page += "| `" + std::string(row.name) + "` | " + kKinds[static_cast<int>(row.kind)] +
                " | " + labels_of(row) + " | " + std::string(row.help) + " |\n";
    }
    return page;
}

TEST(Docs, ConfigurationPageIsTheOptionTable) {
    expect_page("docs/configuration.md", configuration_page());
}

TEST(Docs, MetricsPageIsTheMetricTable) {
    expect_page("docs/metrics.md", metrics_page());
}

}  // namespace
}  // namespace quire
